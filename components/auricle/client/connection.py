"""Connects to `/v1/audio/stream`, and says in our errors why that fails."""

from __future__ import annotations

import json

import websockets

from auricle.errors import (
    AuricleError,
    BadRequest,
    Overloaded,
    RateLimited,
    WorkerUnavailable,
)

_OPEN_SECONDS = 10.0
_PONG_SECONDS = 20.0
_BUSY = {503: Overloaded, 429: RateLimited}


async def connect(
    url: str, api_key: str | None, *, live: bool, resumes: bool
) -> websockets.ClientConnection:
    """Connect to the server at `url`.

    A `live` client notices a server that has vanished; another may get its pongs late. `resumes`
    asks to be let in as a session that was admitted before. Raises BadRequest for an address of
    another form, WorkerUnavailable if the server cannot be reached, Overloaded or RateLimited if
    it has no room now, and another AuricleError if it refuses.
    """
    address = _socket_address(url) + ("?resume=true" if resumes else "")
    try:
        return await websockets.connect(
            address,
            additional_headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            open_timeout=_OPEN_SECONDS,
            max_size=None,
            # Under backpressure the server reads a ping only after our audio, but in real time
            # there is none.
            ping_timeout=_PONG_SECONDS if live else None,
        )
    except websockets.InvalidStatus as error:
        kind = _BUSY.get(error.response.status_code, AuricleError)
        raise kind(f"the server at {url} refused: {_reason(error)}") from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise WorkerUnavailable(f"no auricle server at {url}: {error}") from None


def _socket_address(url: str) -> str:
    """Return the WebSocket's URL. Raises BadRequest unless `url` is of HTTP or WebSocket."""
    for begin, protocol in (("http", "ws"), ("https", "wss"), ("ws", "ws"), ("wss", "wss")):
        if url.lower().startswith(f"{begin}://"):
            return f"{protocol}://{url[len(begin) + 3 :].rstrip('/')}/v1/audio/stream"
    raise BadRequest(
        f"{url} is not the address of a server; "
        "it must begin with http://, https://, ws:// or wss://"
    )


def _reason(error: websockets.InvalidStatus) -> str:
    """Return the message of an error response, or its status."""
    try:
        return str(json.loads(error.response.body or b"")["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.response.status_code}"
