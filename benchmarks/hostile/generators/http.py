"""HTTP: query strings and headers, multipart forms, garbage for servers inside the graph."""

from __future__ import annotations

import random
from collections.abc import Sequence
from urllib.parse import quote

from benchmarks.hostile.generators.values import chance, json_bytes, mutated, rubbish, text, value

_PATHS = (
    *("/live", "/health", "/metrics", "/v1/models", "/v1/models/demo", "/openapi.json", "/docs"),
    *("/v1/audio/transcriptions", "/v1/audio/stream", "/v1/realtime", "/v1/audio/translations"),
)
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW")
_HEADERS = (
    *("accept", "content-type", "content-length", "origin", "range", "cookie", "expect", "host"),
    *("authorization", "x-forwarded-for", "transfer-encoding", "traceparent", "if-none-match"),
)
_FIELDS = (
    *("model", "language", "prompt", "response_format", "temperature", "stream", "file"),
    *("timestamp_granularities[]", "chunking_strategy", "chunking_strategy[type]", "include[]"),
    *("keywords[]", "languages[]", "stream_include_usage", "max_completion_tokens"),
)
_VALUES = (
    *("demo", "en", "json", "verbose_json", "true", "0", "0.5", "segment", "auto", "logprobs"),
    '{"type":"auto"}',
)


def query(rng: random.Random) -> tuple[str, bytes]:
    """A request without a body, to be sent on a connection that stays."""
    path = rng.choice(_PATHS)
    if chance(rng, 0.3):
        path += "/" + quote(text(rng, long=False), safe=rng.choice(("", "/%?")))
    if chance(rng, 0.6):
        pairs = [
            quote(text(rng)[:3_000], safe=rng.choice(("", "&=[]"))) + "="
            + quote(text(rng)[:3_000], safe=rng.choice(("", "&=+")))
            for _ in range(rng.choice((1, 1, 3, 40)))
        ]  # fmt: skip
        path += "?" + "&".join(pairs)[:12_000]
    target = path.encode().replace(b"\r", b"").replace(b"\n", b"").replace(b" ", b"+")
    lines = [rng.choice(_METHODS).encode() + b" " + target + b" HTTP/1.1", b"Host: 127.0.0.1"]
    for _ in range(rng.randrange(3)):
        line = f"{rng.choice(_HEADERS)}: {text(rng)[:3_000]}".encode()
        lines.append(line.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b""))
    return "query", b"\r\n".join([*lines, b"", b""])


def form(rng: random.Random) -> tuple[str, dict[str, bytes]]:
    """A multipart body for /v1/audio/transcriptions, with its content type."""
    return form_of(rng, _FIELDS, _VALUES)


def form_of(
    rng: random.Random, fields: Sequence[str], values: Sequence[str]
) -> tuple[str, dict[str, bytes]]:
    """A multipart body with some of these fields, half of which have one of these values; and its
    content type."""
    boundary = rng.choice((b"x", b"----b0undary", b"a" * 69))
    count = rng.choice((1, 2, 3, 5, 45))
    parts = [_part(rng, boundary, rng.choice(fields), values) for _ in range(count)]
    if chance(rng, 0.6):
        parts.append(_file(boundary, rubbish(rng, 200), "x.wav"))
    body = b"".join(parts) + b"--" + boundary + b"--\r\n"
    content_type = b"multipart/form-data; boundary=" + boundary
    kind = "fields"
    what = rng.randrange(10)
    if what < 3:
        kind, body = "mutated", mutated(rng, body)
    elif what == 3:
        kind, body = "cut", body[: rng.randrange(len(body) + 1)]
    elif what == 4:
        kind = "content type"
        content_type = rng.choice(
            (b"multipart/form-data", b"multipart/form-data; boundary=", b"application/json", b"",
             b"multipart/form-data; boundary=\xff", b"multipart/mixed; boundary=x",
             b"multipart/form-data; boundary=" + b"b" * 5_000)
        )  # fmt: skip
    elif what == 5:
        kind, body = "JSON", json_bytes(rng, value(rng))
    return kind, {"content_type": content_type, "body": body}


def _part(rng: random.Random, boundary: bytes, name: str, values: Sequence[str]) -> bytes:
    content = rng.choice(values) if chance(rng, 0.5) else text(rng)
    shown = name if chance(rng, 0.9) else text(rng, long=False)
    head = b"--" + boundary + b"\r\nContent-Disposition: form-data; "
    head += f'name="{shown}"'.encode()
    if chance(rng, 0.1):
        head += f'; filename="{text(rng, long=False)}"'.encode()
    if chance(rng, 0.1):
        head += b"\r\nContent-Type: " + rng.choice(
            (b"text/plain; charset=x", b"\xff", b"a" * 9_000)
        )
    return head + b"\r\n\r\n" + content.encode() + b"\r\n"


def _file(boundary: bytes, data: bytes, name: str) -> bytes:
    disposition = f'Content-Disposition: form-data; name="file"; filename="{name}"'.encode()
    return b"--" + boundary + b"\r\n" + disposition + b"\r\n\r\n" + data + b"\r\n"


def upload(data: bytes, name: str = "x.wav", **fields: str) -> tuple[bytes, bytes]:
    """A form as it should be with that file: content type and body."""
    boundary = b"fEd9c0"
    body = b"".join(
        b"--" + boundary + f'\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
        for k, v in fields.items()
    )
    body += _file(boundary, data, name) + b"--" + boundary + b"--\r\n"
    return b"multipart/form-data; boundary=" + boundary, body


def inside(rng: random.Random) -> tuple[str, bytes]:
    """A request to a small HTTP server inside the graph (system port, control socket).

    Never one that the launcher would obey: numbers of replicas are no numbers it takes.
    """
    paths = ("/components", "/components/PdWorker/replicas", "/health", "/live", "/metrics",
             "/engine/x", "/v1/loras", "/components/..%2f/replicas", "/")  # fmt: skip
    what = rng.randrange(6)
    if what == 0:
        return "rubbish", rubbish(rng, 400) + b"\r\n\r\n"
    wrong: object = rng.choice((-1, 10**6, 1.5, "1", None, True, [], {}, 2**70, "é" * 3_000))
    body = json_bytes(rng, rng.choice(({"replicas": wrong}, {"x": value(rng)}, [wrong])))
    if b"replicas" in body and what == 1:
        body = body[: rng.randrange(12)]
    path = rng.choice(paths).encode()
    if chance(rng, 0.3):
        path += b"?" + quote(text(rng, long=False)).encode()
    length = len(body) if chance(rng, 0.9) else rng.choice((-1, 2**40, 0))
    head = rng.choice(_METHODS[:6]).encode() + b" " + path + b" HTTP/1.1\r\nHost: x\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()
    request = head + body
    if what == 2:
        # Not the body: a mutation must not make a number of replicas of it.
        request = mutated(rng, head)
    return "request", request
