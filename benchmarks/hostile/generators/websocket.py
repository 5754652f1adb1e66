"""Frames of a WebSocket, at the level of bytes."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from functools import cache

from benchmarks.hostile.generators.values import chance, mutated, rubbish

PATHS = ("/v1/audio/stream", "/v1/realtime")
_START = b'{"type": "start", "sample_rate": 16000}'
_UPDATE = b'{"type": "session.update", "session": {}}'
_MORE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_BOMB = 1 << 22
_NOT_UTF8 = (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2")
_LENGTHS = (126, 65_536, 2**20 + 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_CODES = (0, 999, 1000, 1004, 1005, 1006, 1015, 2999, 5000, 65_535)


def request(path: str, *, key: str = "", extensions: str = "") -> bytes:
    """An opening handshake as it should be; `key` is an API key."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        *([f"Authorization: Bearer {key}"] if key else []),
        *([f"Sec-WebSocket-Extensions: {extensions}"] if extensions else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def frame(
    opcode: int,
    payload: bytes,
    *,
    fin: bool = True,
    reserved: int = 0,
    mask: bool = True,
    claimed: int | None = None,
    length_bytes: int | None = None,
) -> bytes:
    """A frame; `claimed` is the length it says it has, in `length_bytes` of 0, 2 or 8."""
    size = len(payload) if claimed is None else claimed
    if length_bytes is None:
        length_bytes = 0 if size < 126 else 2 if size < 65_536 else 8
    short = {0: size & 127, 2: 126, 8: 127}[length_bytes]
    head = bytes([fin << 7 | reserved << 4 | opcode, mask << 7 | short])
    head += {0: b"", 2: struct.pack(">H", size & 0xFFFF), 8: struct.pack(">Q", size)}[length_bytes]
    return head + (bytes(4) if mask else b"") + payload  # a mask of zeros changes nothing


def frames(rng: random.Random) -> tuple[str, dict[str, object]]:
    """Frames after a good handshake; whether a good first message precedes them."""
    path = rng.choice(PATHS)
    good = _START if path == PATHS[0] else _UPDATE
    lie = rng.choice(_LIES)
    sent = lie(rng, good)
    if chance(rng, 0.1):
        sent = mutated(rng, sent[:70_000])
    first = [frame(_TEXT, good)] if chance(rng, 0.4) else []
    extensions = "permessage-deflate" if lie is _bomb else ""
    return lie.__name__.strip("_"), {
        "path": path,
        "extensions": extensions,
        "sent": [*first, sent],
    }


def _length(rng: random.Random, _good: bytes) -> bytes:
    kind = rng.choice((_TEXT, _BINARY))
    return frame(kind, b"abc", claimed=rng.choice(_LENGTHS), length_bytes=8)


def _length_form(rng: random.Random, good: bytes) -> bytes:
    return frame(_TEXT, good[:20], length_bytes=rng.choice((2, 8)))


def _reserved_bits(rng: random.Random, good: bytes) -> bytes:
    return frame(_TEXT, good, reserved=rng.randrange(1, 8))


def _opcode(rng: random.Random, good: bytes) -> bytes:
    return frame(rng.choice((3, 4, 5, 6, 7, 11, 12, 13, 14, 15)), good)


def _no_mask(_rng: random.Random, good: bytes) -> bytes:
    return frame(_TEXT, good, mask=False)


def _fragments(rng: random.Random, good: bytes) -> bytes:
    parts = [good[at : at + 3] for at in range(0, len(good), 3)]
    pieces = [
        frame(_MORE if number else _TEXT, part, fin=number == len(parts) - 1)
        + (frame(_PING, b"p" * rng.randrange(126)) if chance(rng, 0.5) else b"")
        for number, part in enumerate(parts)
    ]
    if chance(rng, 0.5):
        rng.shuffle(pieces)
    return b"".join(pieces)


def _endless_fragments(_rng: random.Random, _good: bytes) -> bytes:
    return frame(_BINARY, b"", fin=False) + frame(_MORE, b"", fin=False) * 500


def _control(rng: random.Random, _good: bytes) -> bytes:
    payload = rubbish(rng, 4) + b"x" * rng.choice((0, 1, 125, 126, 4_000))
    return frame(rng.choice((_CLOSE, _PING, _PONG)), payload, fin=chance(rng, 0.7))


def _close_code(rng: random.Random, _good: bytes) -> bytes:
    return frame(_CLOSE, struct.pack(">H", rng.choice(_CODES)) + rubbish(rng, 60))


def _flood(rng: random.Random, _good: bytes) -> bytes:
    return frame(rng.choice((_PING, _PONG)), b"x") * rng.choice((100, 2_000))


def _utf8(rng: random.Random, good: bytes) -> bytes:
    return frame(_TEXT, good[:10] + rng.choice(_NOT_UTF8) + good[10:])


def _size(rng: random.Random, _good: bytes) -> bytes:
    size = rng.choice((2**20 - 1, 2**20, 2**20 + 1, 2**21))
    return frame(rng.choice((_TEXT, _BINARY)), bytes(size))


def _bomb(rng: random.Random, _good: bytes) -> bytes:
    """Some kilobytes that inflate to megabytes, or do not inflate at all."""
    if chance(rng, 0.3):
        return frame(_TEXT, rubbish(rng, 500), reserved=4)
    kind = rng.choice((_TEXT, _BINARY))
    return frame(kind, _packed(rng.choice((b"\0", b" ", b"["))), reserved=4)


@cache
def _packed(fill: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(fill * _BOMB) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


def _rubbish(rng: random.Random, _good: bytes) -> bytes:
    return rubbish(rng, 2_000)


_LIES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_length, _length_form, _reserved_bits, _opcode, _no_mask, _fragments, _endless_fragments),
    *(_control, _close_code, _flood, _utf8, _size, _bomb, _rubbish),
)
