"""Connects to `/v1/audio/stream`, and says in our errors why that fails."""

from __future__ import annotations

import websockets

from auricle.client.addresses import socket_address
from auricle.client.errors import ServerUnreachable, refusal

_OPEN_SECONDS = 10.0
_PONG_SECONDS = 20.0
_PATH = "/v1/audio/stream"


async def connect(
    url: str, api_key: str | None, *, live: bool, resumes: bool
) -> websockets.ClientConnection:
    """Connect to the server at `url`.

    A `live` client notices a server that has vanished; another may get its pongs late. `resumes`
    asks to be let in as a session that was admitted before. Raises BadRequest for an address of
    another form, ServerUnreachable if nobody answers, Overloaded or RateLimited if the server has
    no room now, and another AuricleError if it refuses.
    """
    address = socket_address(url, _PATH + ("?resume=true" if resumes else ""))
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
        response = error.response
        after = response.headers.get("Retry-After")
        raise refusal(url, response.status_code, bytes(response.body or b""), after) from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise ServerUnreachable(f"no auricle server at {url}: {error}") from None
