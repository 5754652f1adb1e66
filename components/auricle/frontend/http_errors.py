"""Errors as HTTP answers, in the body OpenAI's clients expect."""

from __future__ import annotations

import math

from fastapi.responses import JSONResponse

from auricle.errors import AuricleError, Overloaded, RateLimited, UnsupportedValue

# Everything else is the server's fault: 500.
_STATUS = {
    "bad_request": 400,
    "protocol": 400,
    "unsupported_value": 400,
    "undecodable_audio": 400,
    "invalid_api_key": 401,
    "forbidden": 403,
    "model_not_found": 404,
    "too_large": 413,
    "audio_too_long": 422,
    "rate_limited": 429,
    "overloaded": 503,
    "unavailable": 503,
    "deadline": 504,
}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_RETRY_SECONDS = 5


def status_of(error: AuricleError) -> int:
    """The HTTP status an error is answered with."""
    return _STATUS.get(error.code, 500)


def error_body(error: AuricleError) -> dict[str, object]:
    """OpenAI's error object."""
    status = status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {
        "error": {
            "message": str(error),
            "type": kind,
            "param": error.param if isinstance(error, UnsupportedValue) else None,
            "code": error.code,
        }
    }


def error_response(error: AuricleError) -> JSONResponse:
    """Status, body and, where trying again helps, when."""
    headers = {}
    if isinstance(error, RateLimited | Overloaded):
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    elif status_of(error) == 503:
        headers["Retry-After"] = str(_RETRY_SECONDS)
    if status_of(error) == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error), status_code=status_of(error), headers=headers)
