"""Answers written to a connection that no application serves: bad requests and refusals."""

from __future__ import annotations

from http import HTTPStatus

from auricle.errors import AuricleError
from auricle.frontend.doors.http_errors import error_response


def plain_answer(error: AuricleError) -> bytes:
    """Return the whole HTTP/1.1 response that tells `error` and ends the connection."""
    response = error_response(error)
    status = HTTPStatus(response.status_code)
    head = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    head += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*head, b"connection: close", b"", bytes(response.body)])
