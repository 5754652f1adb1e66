"""Opening handshakes of a WebSocket, at the level of bytes."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

from benchmarks.hostile.generators.values import chance, mutated, rubbish, text
from benchmarks.hostile.generators.websocket import PATHS, request

_NAMES = (
    *("Host", "Origin", "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions", "Upgrade", "Te"),
    *("Sec-WebSocket-Version", "Connection", "Authorization", "Cookie", "Expect", "Forwarded"),
    *("X-Forwarded-For", "Content-Type", "traceparent"),
)


def handshake(rng: random.Random) -> tuple[str, list[bytes]]:
    """A handshake that lies; sent in one or several pieces."""
    good = request(rng.choice(PATHS))
    lie = rng.choice(_LIES)
    return lie.__name__.strip("_"), _pieces(rng, lie(rng, good))


def _mutated(rng: random.Random, good: bytes) -> bytes:
    return mutated(rng, good)


def _header(rng: random.Random, good: bytes) -> bytes:
    line = f"{rng.choice(_NAMES)}: {text(rng)}".encode("utf-8", "replace")
    if chance(rng, 0.7):
        line = line.replace(b"\n", b"").replace(b"\r", b"")
    return _after_first(good, line)


def _repeated(rng: random.Random, good: bytes) -> bytes:
    first, *rest = good.split(b"\r\n")
    return b"\r\n".join([first, *rest[:-2] * rng.randrange(2, 30), b"", b""])


def _huge(rng: random.Random, good: bytes) -> bytes:
    return _after_first(good, b"X-A: " + b"a" * rng.choice((1_000, 16_000, 70_000, 200_000)))


def _many(rng: random.Random, good: bytes) -> bytes:
    more = (f"X-{number}: 1".encode() for number in range(rng.choice((50, 300, 2_000))))
    return _after_first(good, b"\r\n".join(more))


def _target(rng: random.Random, good: bytes) -> bytes:
    targets = (
        *(b"/%2e%2e/v1", b"//v1", b"http://x/v1", b"*", b"/v1/../v1", b"/\0", b"/%00", b"/%ff%fe"),
        *(b"/%zz", b"/v1?" + rubbish(rng, 50), b"/" + b"a" * rng.choice((100, 9_000, 80_000))),
    )
    return good.replace(b"/v1", rng.choice(targets), 1)


def _method(rng: random.Random, good: bytes) -> bytes:
    methods = (b"POST", b"PRI", b"CONNECT", b"\xff", b"", b"G" * 9_000)
    return good.replace(b"GET", rng.choice(methods), 1)


def _version(rng: random.Random, good: bytes) -> bytes:
    return good.replace(b"HTTP/1.1", rng.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b"")), 1)


def _key(rng: random.Random, good: bytes) -> bytes:
    wrong = base64.b64encode(rubbish(rng, 40)) + rubbish(rng, 3)
    return good.replace(b"dGhlIHNhbXBsZSBub25jZQ==", wrong)


def _missing(rng: random.Random, good: bytes) -> bytes:
    lines = good.split(b"\r\n")
    return b"\r\n".join(line for line in lines if line and chance(rng, 0.7)) + b"\r\n\r\n"


def _smuggled(rng: random.Random, good: bytes) -> bytes:
    body = (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Content-Length: -1")
    return _after_first(good, rng.choice(body)) + b"0\r\n\r\n"


def _garbage(rng: random.Random, _good: bytes) -> bytes:
    greeting = rng.choice((b"\x16\x03\x01", b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    return greeting + rubbish(rng, 300)


def _after_first(good: bytes, line: bytes) -> bytes:
    first, end, rest = good.partition(b"\r\n")
    return first + end + line + end + rest


_LIES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_header, _header, _header, _mutated, _repeated, _huge, _many, _target, _method, _version),
    *(_key, _missing, _smuggled, _garbage),
)


def _pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """Mostly in one; else cut anywhere."""
    if chance(rng, 0.85) or len(data) < 2:
        return [data]
    at = rng.randrange(1, len(data))
    return [data[:at], data[at:]]
