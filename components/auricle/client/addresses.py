"""The addresses of a server's ways in, from the address that a user gives."""

from __future__ import annotations

from auricle.errors import BadRequest

_SCHEMES = {"http": ("http", "ws"), "https": ("https", "wss")}
_SCHEMES |= {"ws": _SCHEMES["http"], "wss": _SCHEMES["https"]}


def http_address(url: str, path: str) -> str:
    """Return the HTTP address of a path. Raises BadRequest unless `url` is of a server."""
    (http, _), rest = _split(url)
    return f"{http}://{rest}{path}"


def socket_address(url: str, path: str) -> str:
    """Return the WebSocket address of a path. Raises BadRequest unless `url` is of a server."""
    (_, socket), rest = _split(url)
    return f"{socket}://{rest}{path}"


def _split(url: str) -> tuple[tuple[str, str], str]:
    begin, found, rest = url.partition("://")
    if not found or not rest or begin.lower() not in _SCHEMES:
        raise BadRequest(
            f"{url} is not the address of a server; "
            "it must begin with http://, https://, ws:// or wss://"
        )
    return _SCHEMES[begin.lower()], rest.rstrip("/")
