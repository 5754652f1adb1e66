"""Attacks on HTTP: the frontend's, and the small servers inside the graph."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Address, Hung, Wire
from benchmarks.hostile.case import Case, Outcome, Verdict, of_http
from benchmarks.hostile.generators.http import upload

_TRANSCRIPTIONS = "/v1/audio/transcriptions"
_PATIENCE = 0.15


def head(target: Target, content_type: bytes, size: int, path: str = _TRANSCRIPTIONS) -> bytes:
    """The head of a request, by default to /v1/audio/transcriptions."""
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {target.key}",
        f"Content-Length: {size}",
    )
    return "\r\n".join(lines).encode() + b"\r\nContent-Type: " + content_type + b"\r\n\r\n"


class Queries:
    """A connection that stays while the server lets it, for requests without a body."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wire: Wire | None = None

    async def attack(self, case: Case) -> Outcome:
        """Send one request and read its answer."""
        if self._wire is None:
            self._wire = await Wire.open(Address(self._target.host, self._target.port))
        wire = self._wire
        data: bytes = case.data
        key = f"\r\nAuthorization: Bearer {self._target.key}\r\n\r\n".encode()
        await wire.send(data[:-4] + (b"\r\n\r\n" if b"authorization" in data else key))
        try:
            return await self._answer(wire, data)
        finally:
            if self._wire is not None and _incomplete(data):
                self.close()

    async def _answer(self, wire: Wire, data: bytes) -> Outcome:
        if _incomplete(data):  # it announces a body that never comes
            answered = await wire.hears_end(_PATIENCE)
            if not answered and not wire.unread:
                return Outcome(Verdict.WAITED)
        answer = await wire.http(head=data.startswith(b"HEAD "))
        if answer is None:
            self.close()
            return Outcome(Verdict.CLOSED)
        if not answer.stays:
            self.close()
        return _judged(answer.status, answer.body, answer.retry_after)

    def close(self) -> None:
        """Close the connection; the next case opens another."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def _incomplete(data: bytes) -> bool:
    lowered = data.lower()
    return b"\r\ncontent-length:" in lowered or b"\r\ntransfer-encoding:" in lowered


def _judged(status: int, body: bytes, retry_after: bool) -> Outcome:
    # What /openapi.json, /docs and /metrics answer is long and names types; only errors are judged.
    return of_http(status, body if status >= 400 else b"", retry_after)


async def forms(target: Target, case: Case) -> Outcome:
    """Post a form and read the answer."""
    return await posted(target, _TRANSCRIPTIONS, case.data["content_type"], case.data["body"])


async def uploads(target: Target, case: Case) -> Outcome:
    """Post a file as a form should be, and read the answer."""
    name = "x.bin" if case.number % 3 else "x.m3u8"
    content_type, body = upload(case.data, name, model="demo")
    return await posted(target, _TRANSCRIPTIONS, content_type, body)


async def posted(target: Target, path: str, content_type: bytes, body: bytes) -> Outcome:
    """Post a body and read the answer."""
    wire = await Wire.open(Address(target.host, target.port))
    try:
        await wire.send(head(target, content_type, len(body), path) + body)
        answer = await wire.http()
        if answer is None:
            return Outcome(Verdict.FAILED, "closed without an answer")
        return of_http(answer.status, answer.body, answer.retry_after)
    finally:
        wire.close()


async def leaving(target: Target, case: Case) -> Outcome:
    """Ask for a streamed transcription, and leave at the point that the case names."""
    data = await asyncio.to_thread(Path(target.audio).read_bytes)
    content_type, body = upload(data, "x.flac", model="demo", stream="true")
    wire = await Wire.open(Address(target.host, target.port))
    try:
        await wire.send(head(target, content_type, len(body)))
        await wire.send(body[: int(case.data["body"] * len(body))])
        await asyncio.sleep(case.data["seconds"])
        # While events are awaited, silence is no hang: a part may take its time.
        with contextlib.suppress(Hung):
            while wire.unread.count(b"\n\n") < case.data["events"]:
                if not await wire.receive():
                    break
        return Outcome(Verdict.CLOSED, f"{len(wire.unread)} bytes of answer")
    finally:
        wire.close(abrupt=case.data["abrupt"])


async def inside(target: Target, case: Case) -> Outcome:
    """Send a request to one of the HTTP servers inside the graph."""
    servers = [
        *(Address(p.host, p.number) for p in target.ports if p.system),
        *(Address(path=path) for path in target.sockets if path.endswith("launcher.sock")),
    ]
    if not servers:
        return Outcome(Verdict.LOST, "the graph has no HTTP servers inside")
    wire = await Wire.open(servers[case.number % len(servers)])
    try:
        await wire.send(case.data)
        await wire.hears_end(_PATIENCE)
        if not wire.unread:
            return Outcome(Verdict.CLOSED)
        if not wire.unread.startswith(b"HTTP/"):
            return Outcome(Verdict.REFUSED, repr(bytes(wire.unread[:100])))
        answer = await wire.http(head=case.data.startswith(b"HEAD "))
        if answer is None:
            return Outcome(Verdict.CLOSED)
        return _judged(answer.status, answer.body, answer.retry_after)
    finally:
        wire.close()
