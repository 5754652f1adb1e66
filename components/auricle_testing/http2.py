"""An HTTP/2 client that sends any frames, however wrong, to the frontend's gRPC port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from auricle.frontend.transport.grpc.frames import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    FrameKind,
    frame,
    header_block,
)

SETTINGS, PING, WINDOW_UPDATE = 4, 6, 8
EMPTY_SETTINGS = frame(SETTINGS, 0, 0)
PINGED = frame(PING, 0, 0, bytes(8))
_LARGEST_FRAME = 16_384


def call(stream: int, method: str, secret: str | None = None, encoding: str = "") -> bytes:
    """The frame that begins a call of `method`, `SERVICE/METHOD`.

    With `encoding`, such as gzip, its messages may be compressed.
    """
    headers = [
        *((":method", "POST"), (":scheme", "http"), (":path", f"/{method}")),
        *((":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers")),
    ]
    if secret is not None:
        headers.append(("authorization", f"Bearer {secret}"))
    if encoding:
        headers.append(("grpc-encoding", encoding))
    return frame(FrameKind.HEADERS, END_HEADERS, stream, header_block(headers))


def data(stream: int, payload: bytes, *, ends: bool = False) -> bytes:
    """The frames of some bytes of a call."""
    pieces = [payload[at : at + _LARGEST_FRAME] for at in range(0, len(payload), _LARGEST_FRAME)]
    sent = b"".join(frame(FrameKind.DATA, 0, stream, piece) for piece in pieces)
    return sent + (frame(FrameKind.DATA, END_STREAM, stream) if ends else b"")


def prefix(size: int, *, compressed: bool = False) -> bytes:
    """The beginning of a gRPC message that declares `size` bytes."""
    return bytes((compressed,)) + size.to_bytes(4, "big")


@asynccontextmanager
async def connected(
    port: int, address: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection from a loopback address, whose preface is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(PREFACE + EMPTY_SETTINGS)
    try:
        yield reader, writer
    finally:
        writer.close()


async def received(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """The kind, flags, stream and payload of the next frame. Raises IncompleteReadError."""
    head = await reader.readexactly(9)
    payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
    return head[3], head[4], int.from_bytes(head[5:9], "big"), payload


async def is_closed(reader: asyncio.StreamReader) -> bytes:
    """All that the server sends until it closes the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""
