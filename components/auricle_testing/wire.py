"""A client's handshake and WebSocket frames, as bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
_CONTINUATION = 0
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def handshake(path: str) -> bytes:
    """Return the request that opens a WebSocket at `path`."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {_KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def frame(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    """Return one frame of a client. Its mask is zero: valid, and the frame stays readable."""
    head = bytes([(0x80 if fin else 0) | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + bytes(4) + payload


def message(value: Any) -> bytes:
    """Return a text frame with `value` as JSON."""
    return frame(TEXT, json.dumps(value).encode())


def binary(data: bytes, size: int) -> bytes:
    """Return `data` as frames of `size` bytes."""
    return b"".join(frame(BINARY, data[at : at + size]) for at in range(0, len(data), size))


def fragments(data: bytes, size: int) -> bytes:
    """Return `data` as one message in fragments of `size` bytes."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(
        frame(_CONTINUATION if number else BINARY, part, fin=number + 1 == len(parts))
        for number, part in enumerate(parts)
    )
