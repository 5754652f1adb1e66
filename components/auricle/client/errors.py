"""What can go wrong at a client, besides what the server says: auricle/core/errors.py has that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from auricle.core.errors import AuricleError, WorkerUnavailable, from_code

# Of a server or proxy that does not say more than a status.
_CODES = {
    400: "bad_request",
    401: "invalid_api_key",
    403: "forbidden",
    404: "bad_request",
    413: "too_large",
    429: "rate_limited",
    502: "unavailable",
    503: "overloaded",
    504: "unavailable",
}


class ServerUnreachable(WorkerUnavailable):
    """Nobody answers at the address."""

    code = "unreachable"


class ConnectionLost(AuricleError):
    """The connection of a session was lost, and the session could not be resumed.

    What was told of it until then is good; audio after the last final text has to be sent in a new
    session. The cause is what the last attempt failed with.
    """

    code = "connection_lost"
    retryable = True


def reported(said: Mapping[str, Any], message: str, retry_after_seconds: float) -> AuricleError:
    """Return the error that a server reports with these fields, of its class.

    `code` is the server's word even where this version has no class for it.
    """
    code = str(said.get("code") or "internal")
    error = ConnectionLost(message) if code.startswith("resume_") else from_code(code, message)
    if retry_after_seconds:
        error.retry_after_seconds = retry_after_seconds
    error.code = code
    param = said.get("param")
    error.param = param if isinstance(param, str) else None
    return error


def refusal(url: str, status: int, body: bytes, retry_after: str | None) -> AuricleError:
    """Return the error of an HTTP response that is one; `retry_after` is its header's value."""
    said: Mapping[str, Any] = {"code": _CODES.get(status)}
    message = f"HTTP status {status}"
    try:
        told = json.loads(body)["error"]
        said, message = {"code": told.get("code"), "param": told.get("param")}, told["message"]
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # not from an auricle server, but from something before it
    try:
        seconds = max(0.0, float(retry_after or 0))
    except ValueError:
        seconds = 0.0  # a date
    return reported(said, f"the server at {url} refused: {message}", seconds)
