"""Attacks on the WebSocket protocols."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Address, AttackerFailed, Hung, Wire
from benchmarks.hostile.case import Case, Outcome, Verdict, leak, of_close, of_http
from benchmarks.hostile.generators.websocket import frame, request

CLOSE = frame(8, struct.pack(">H", 1000))
END = frame(1, b'{"type": "end"}')
# How long a session is given to complain before its end is sent.
_PATIENCE = 0.15
_AGAIN_SECONDS = 0.5


@dataclass
class Ending:
    """How a WebSocket session ended: close code (0: none), reason, last error message."""

    code: int = 0
    reason: bytes = b""
    error: bytes = b""
    messages: int = 0

    def take(self, opcode: int, payload: bytes) -> None:
        """Take one frame of the server."""
        if opcode == 8:
            self.code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
            self.reason = payload[2:]
        elif opcode == 1:
            self.messages += 1
            if b'"type":"error"' in payload[:200]:
                self.error = payload

    def outcome(self) -> Outcome:
        """The verdict."""
        if self.code:
            return of_close(self.code, self.reason, self.error)
        if self.error and (found := leak(self.error)):
            return Outcome(Verdict.LEAKED, found)
        return Outcome(Verdict.CLOSED, f"no close frame, {self.error[:200]!r}")


async def opened(target: Target, path: str, extensions: str = "") -> Wire | Outcome:
    """Return a connection after a good handshake, or the answer that it was refused with."""
    wire = await Wire.open(Address(target.host, target.port))
    await wire.send(request(path, key=target.key, extensions=extensions))
    answer = await wire.http()
    if answer is not None and answer.status == 101:
        return wire
    wire.close()
    if answer is None:
        return Outcome(Verdict.FAILED, "a good handshake was not answered")
    return of_http(answer.status, answer.body, answer.retry_after)


async def let_in(target: Target, path: str, seconds: float = 60.0) -> Wire:
    """Return a connection after a good handshake, as soon as the server has room.

    Raises AttackerFailed if it has none for so many seconds, or refuses for another reason.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = await opened(target, path)
        if isinstance(found, Wire):
            return found
        if found.verdict is not Verdict.BUSY or time.monotonic() > deadline:
            raise AttackerFailed(f"not let in: {found.detail}")
        await asyncio.sleep(_AGAIN_SECONDS)


async def handshakes(target: Target, case: Case) -> Outcome:
    """Send the pieces of a handshake, and see that it is answered or the connection closed."""
    wire = await Wire.open(Address(target.host, target.port))
    try:
        for piece in case.data:
            await wire.send(piece)
        waited = not await wire.hears_end(_PATIENCE)
        if not wire.unread:
            return Outcome(Verdict.WAITED if waited else Verdict.CLOSED)
        answer = await wire.http()
        assert answer is not None
        if answer.status == 101:
            return Outcome(Verdict.ANSWERED, "101")
        return of_http(answer.status, answer.body, answer.retry_after)
    finally:
        wire.close(abrupt=True)


async def frames(target: Target, case: Case) -> Outcome:
    """Send frames after a good handshake, then a close frame, then the end."""
    wire = await opened(target, case.data["path"], case.data["extensions"])
    if isinstance(wire, Outcome):
        return wire
    return await conversed(wire, [*case.data["sent"], CLOSE])


async def session(target: Target, case: Case) -> Outcome:
    """Send text and binary messages on /v1/audio/stream, then a close frame."""
    wire = await opened(target, "/v1/audio/stream")
    if isinstance(wire, Outcome):
        return wire
    return await conversed(wire, [*(_message(one) for one in case.data)], until_closed=True)


def _message(message: str | bytes) -> bytes:
    if isinstance(message, str):
        return frame(1, message.encode())
    return frame(2, message)


def _texts(case: Case) -> Iterable[bytes]:
    return (frame(1, message) for message in case.data)


async def starts(target: Target, case: Case) -> Outcome:
    """Send text messages (bytes) on /v1/audio/stream."""
    wire = await opened(target, "/v1/audio/stream")
    if isinstance(wire, Outcome):
        return wire
    return await conversed(wire, list(_texts(case)), until_closed=True)


async def conversed(
    wire: Wire, sent: list[bytes], until_closed: bool = False, ending: Ending | None = None
) -> Outcome:
    """Send, and read until the server has closed; `ending` takes what it says.

    With `until_closed`, a session that does not end by itself gets a close frame: it may
    rightly wait for more audio.
    """
    ending, waited = ending or Ending(), False
    try:
        for part in sent:
            await wire.send(part)
        if until_closed and not await _ended(wire, ending, _PATIENCE):
            await wire.send(CLOSE)
        if not await _ended(wire, ending, _PATIENCE):
            waited = True
            await wire.hears_end(_PATIENCE)
            await _ended(wire, ending, _PATIENCE)
        if waited and not ending.code:
            return Outcome(Verdict.WAITED, f"after {ending.messages} messages")
        return ending.outcome()
    finally:
        wire.close()


async def _ended(wire: Wire, ending: Ending, seconds: float) -> bool:
    """Read for at most that long without news; whether the session has ended."""
    while True:
        while (found := wire.frame()) is not None:
            ending.take(*found)
        if ending.code:
            return True
        try:
            if not await wire.receive(seconds):
                return True
        except Hung:
            return False


class Realtime:
    """One connection to /v1/realtime that takes many events, until one ends it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wire: Wire | None = None
        self._number = 0

    async def attack(self, case: Case) -> Outcome:
        """Send the event, then one whose answer is known, and read up to that."""
        if self._wire is None:
            found = await opened(self._target, "/v1/realtime")
            if isinstance(found, Outcome):
                return found
            self._wire = found
        wire, ending = self._wire, Ending()
        self._number += 1
        mark = f"mark{self._number}"
        known = {"type": "session.update", "event_id": mark, "session": {mark: 0}}
        await wire.send(frame(1, case.data))
        await wire.send(frame(1, json.dumps(known).encode()))
        try:
            return await self._answer(wire, ending, mark.encode())
        except (Hung, AttackerFailed):
            self.close()
            raise

    async def _answer(self, wire: Wire, ending: Ending, mark: bytes) -> Outcome:
        error = b""
        while True:
            found = wire.frame()
            if found is None:
                if ending.code or not await wire.receive():
                    self.close()
                    return ending.outcome()
                continue
            ending.take(*found)
            if mark in ending.error:
                break
            error = ending.error
        if (shown := leak(error)) is not None:
            return Outcome(Verdict.LEAKED, shown)
        return Outcome(Verdict.REFUSED if error else Verdict.ANSWERED, repr(error[:200]))

    def close(self) -> None:
        """Close the connection; the next case opens another."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
