"""The query of a request's URL."""

from __future__ import annotations

from fastapi import WebSocket
from starlette.requests import HTTPConnection

from auricle.errors import BadRequest
from auricle.quoting import quoted
from auricle.text_bounds import query_fields


def query_string(connection: HTTPConnection) -> str:
    """Return the query as it was sent, of any length."""
    return str(connection.scope["query_string"].decode("latin-1"))


def says_it_resumes(socket: WebSocket) -> bool:
    """Whether a client says that it was admitted before. Raises BadRequest."""
    value = query_fields(query_string(socket)).get("resume", "false")
    if value not in ("true", "false"):
        raise BadRequest(f"resume is {quoted(value)}; it must be true or false")
    return value == "true"
