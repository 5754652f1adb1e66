"""Errors that occur at a client; auricle/core/errors.py has the server's errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from auricle.core.errors import AuricleError, WorkerUnavailable, from_code

# For a response of a server or proxy without an error body.
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
    """No server answers at the address."""

    code = "unreachable"


class ConnectionLost(AuricleError):
    """The connection of a session was lost, and the session could not be resumed.

    Earlier events remain valid; send audio after the last final text in a new session. The cause is
    the error of the last attempt.
    """

    code = "connection_lost"
    retryable = True


def reported(fields: Mapping[str, Any], message: str, retry_after_seconds: float) -> AuricleError:
    """Return the error that a server reports with these `fields`.

    `code` is the server's, even if this version has no class for it.
    """
    code = str(fields.get("code") or "internal")
    error = ConnectionLost(message) if code.startswith("resume_") else from_code(code, message)
    if retry_after_seconds:
        error.retry_after_seconds = retry_after_seconds
    error.code = code
    param = fields.get("param")
    error.param = param if isinstance(param, str) else None
    return error


def refusal(url: str, status: int, body: bytes, retry_after: str | None) -> AuricleError:
    """Return the error of an HTTP response; `retry_after` is its header's value."""
    fields: Mapping[str, Any] = {"code": _CODES.get(status)}
    message = f"HTTP status {status}"
    try:
        error = json.loads(body)["error"]
        fields, message = {"code": error.get("code"), "param": error.get("param")}, error["message"]
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # from a proxy, not from an auricle server
    try:
        seconds = max(0.0, float(retry_after or 0))
    except ValueError:
        seconds = 0.0  # a date
    return reported(fields, f"the server at {url} refused: {message}", seconds)
