"""A server of `/v1/audio/stream` that runs a test's script on each connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import websockets
from websockets.asyncio.server import Server, ServerConnection, serve

READY = {"type": "ready", "session": "s", "model": "demo", "chunk_ms": 640}
Script = Callable[["Connection"], Awaitable[None]]


class Connection:
    """The server's side of one connection, for a test's script."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        assert socket.request is not None
        self.path = socket.request.path

    async def start(self) -> dict[str, Any]:
        return dict(json.loads(await self.socket.recv()))

    async def say(self, kind: str, token: int | None = None, **fields: Any) -> None:
        resume = {} if token is None else {"resume": {"token": f"t{token}", "from_sample": token}}
        await self.socket.send(json.dumps({"type": kind, **fields, **resume}))

    async def ready(self, token: int | None = None) -> None:
        await self.say("ready", token, **{k: v for k, v in READY.items() if k != "type"})

    async def audio(self) -> bytes:
        """All audio up to the end message."""
        found = b""
        while isinstance(message := await self.socket.recv(), bytes):
            found += message
        assert json.loads(message) == {"type": "end"}
        return found

    def cut(self) -> None:
        self.socket.transport.abort()


@asynccontextmanager
async def serving(*scripts: Script, refuse: list[HTTPStatus] | None = None) -> AsyncIterator[str]:
    """A server that runs one script per connection, after refusing some handshakes."""
    left, refusals, failed = list(scripts), [] if refuse is None else refuse, []

    async def handle(socket: ServerConnection) -> None:
        try:
            await left.pop(0)(Connection(socket))
        except websockets.ConnectionClosed:
            pass
        except Exception as error:
            failed.append(error)
            raise

    def door(socket: ServerConnection, _request: object) -> Any:
        return socket.respond(refusals.pop(0), "full") if refusals else None

    server: Server
    # Without pings of its own, it does not end a connection that a test has paused.
    async with serve(
        handle, "127.0.0.1", 0, process_request=door, ping_interval=None, close_timeout=0.2
    ) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        yield f"http://{host}:{port}"
    assert not failed
    assert not left, "a connection that was expected did not come"


def final(segment: int, text: str) -> dict[str, Any]:
    return {"segment": segment, "text": text, "start_ms": 0, "end_ms": 1, "language": "English"}
