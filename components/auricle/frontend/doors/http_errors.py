"""Errors as HTTP responses, with the body that OpenAI's clients expect."""

from __future__ import annotations

import math

from fastapi.responses import JSONResponse

from auricle.errors import AuricleError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error_body(error: AuricleError) -> dict[str, object]:
    """Return OpenAI's error object."""
    status = error.http_status
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {
        "error": {
            "message": error.for_client,
            "type": kind,
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: AuricleError) -> JSONResponse:
    """Return the response: status, body, and `Retry-After` if the error says when to retry."""
    return JSONResponse(
        error_body(error), status_code=error.http_status, headers=error_headers(error)
    )


def error_headers(error: AuricleError) -> dict[str, str]:
    """Return the headers of a response that tells an error, whatever its body."""
    headers = {}
    if error.retry_after_seconds:
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return headers
