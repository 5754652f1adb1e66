"""Error messages for malformed JSON and forms, and errors as HTTP responses. No I/O.

The messages of parser libraries change with their versions and repeat input of any length, so
only known messages are translated.
"""

from __future__ import annotations

import math
import re

import msgspec
from fastapi import WebSocket
from fastapi.responses import JSONResponse
from starlette.requests import HTTPConnection

from auricle.core.errors import AuricleError, BadRequest
from auricle.core.limits import fault, query_fields
from auricle.core.sanitize import escaped, quoted

_PATH = re.compile(r"(.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_PLACE = re.compile(r".* \(byte (\d+)\)")
# msgspec's messages about a field, and ours; `{name}` is the field's path.
_JSON = (
    (r"Object (?:missing required|contains unknown) field `(.*)`", ""),
    (r"Invalid value '(.*)'", "{name} {found} is not supported"),
    (r"Expected `([\w |]+)`(?:, got `\w+`)?", "{name} must be {type}"),
    (r"Invalid base64 encoded string()", "{name} is not base64, padded and without line breaks"),
    (r".*out of range()", "{name} is too large a number"),
)


def json_fault(error: msgspec.DecodeError | RecursionError) -> str:
    """Return the fault in a JSON message that msgspec refused."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        at = _PLACE.fullmatch(str(error))
        return "it is not valid JSON" + (f" (byte {at[1]})" if at else "")
    matched = _PATH.fullmatch(str(error))
    reason, path = (matched[1], matched["path"]) if matched else ("", None)
    for pattern, words in _JSON:
        if found := re.fullmatch(pattern, reason, re.DOTALL):
            return _field_fault(reason, path, found[1], words)
    return "it has a value that cannot be used"


def _field_fault(reason: str, path: str | None, found: str, words: str) -> str:
    if not words:
        field = escaped(f"{path}.{found}" if path else found)
        return f"{field} is missing" if reason.startswith("Object missing") else _unknown(field)
    name = escaped(path) if path else "the message"
    return words.format(name=name, found=quoted(found), type=found.replace("|", "or"))


def _unknown(field: str) -> str:
    return f"{field} is not supported"


def check_text(field: str, text: str | None, most: int, kind: type[AuricleError]) -> None:
    """Raise `kind`, naming the field, if its text cannot be taken."""
    if text is not None and (wrong := fault(field, text, most)) is not None:
        error = kind(wrong)
        error.param = field
        raise error


# The query of a request's URL.


def query_string(connection: HTTPConnection) -> str:
    """Return the query as it was sent, of any length."""
    return str(connection.scope["query_string"].decode("latin-1"))


def is_resuming(socket: WebSocket) -> bool:
    """Whether a client resumes an admitted session. Raises BadRequest."""
    return _flag(socket, "resume")


def wants_refusal_message(socket: WebSocket) -> bool:
    """Whether a refused client is to receive an `error` message. Raises BadRequest."""
    return _flag(socket, "refusal_message")


def _flag(socket: WebSocket, name: str) -> bool:
    value = query_fields(query_string(socket)).get(name, "false")
    if value not in ("true", "false"):
        raise BadRequest(f"{name} is {quoted(value)}; it must be true or false")
    return value == "true"


# Errors as HTTP responses, with the body that OpenAI's clients expect.

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error_body(error: AuricleError) -> dict[str, object]:
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
    """Return the response: status, body, and `Retry-After` if the error has a retry time."""
    return JSONResponse(
        error_body(error), status_code=error.http_status, headers=error_headers(error)
    )


def error_headers(error: AuricleError) -> dict[str, str]:
    """Return the headers of an error's response."""
    headers = {}
    if error.retry_after_seconds:
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.http_status == 426:
        headers |= {"Upgrade": "websocket", "Connection": "Upgrade"}
    return headers
