"""WebSocket sessions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auricle.audio.decode import read_audio
from auricle.audio.pcm import to_int16
from auricle_testing.wire import BINARY, TEXT, frame
from auricle_testing.wire import CLOSE as CLOSING
from benchmarks.hostile import oracle
from benchmarks.hostile.attackers.wire import PATIENCE, AttackerFailed, Hung, Target, Wire
from benchmarks.hostile.inputs import RAW, Session
from benchmarks.hostile.oracle import Outcome, Verdict
from benchmarks.hostile.strategies.http import CLOSE, handshake

_AGAIN_SECONDS = 0.5
_PACKET_BYTES = 64_000
# More than Processor.translation_deadline_seconds, after which a translation is reported missing.
TRANSLATED_SECONDS = 20.0
_ERRORS = (b'"type":"error"', b'"type":"Error"')


@dataclass
class Ending:
    """The end of a session: close code (0: none), reason, error messages, all messages."""

    code: int = 0
    reason: bytes = b""
    errors: list[bytes] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)

    @property
    def error(self) -> bytes:
        """The last error message, empty for none."""
        return self.errors[-1] if self.errors else b""

    def take(self, opcode: int, payload: bytes) -> None:
        """Take one frame of the server."""
        if opcode == CLOSING:
            self.code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
            self.reason = payload[2:]
        elif opcode == TEXT:
            self.messages.append(payload)
            if any(mark in payload[:200] for mark in _ERRORS):
                # Deepgram's word for a malformed message looks like the name of an exception.
                self.errors.append(payload.replace(b'"SchemaError"', b'""'))

    async def read(self, wire: Wire, seconds: float | None = None) -> bytes | None:
        """Return the next text; None once the session is over. Raises Hung."""
        while not self.code and (found := await wire.message(seconds)) is not None:
            self.take(*found)
            if found[0] == TEXT:
                return found[1]
        return None

    async def read_all(self, wire: Wire, seconds: float | None = None) -> None:
        """Read until the session is over. Raises Hung if nothing comes for `seconds`."""
        while await self.read(wire, seconds) is not None:
            pass

    def outcome(self) -> Outcome:
        """The verdict."""
        if shown := next(filter(None, map(oracle.leak, self.errors)), ""):
            return Outcome(Verdict.LEAKED, shown)
        if self.code:
            return oracle.of_close(self.code, self.reason, self.error)
        return Outcome(Verdict.CLOSED, f"no close frame, {self.error[:200]!r}")


async def opened(target: Target, path: str, extensions: str = "") -> Wire | Outcome:
    """Return a connection after a valid handshake, or its rejection."""
    wire = await Wire.open(target.place("http"))
    await wire.send(handshake(path, key=target.key, extensions=extensions))
    while b"\r\n\r\n" not in wire.unread:
        if not await wire.receive():
            wire.close()
            return Outcome(Verdict.FAILED, "a valid handshake was not answered")
    answer, _, wire.unread[:] = bytes(wire.unread).partition(b"\r\n\r\n")
    if answer.startswith(b"HTTP/1.1 101 "):
        return wire
    outcome = oracle.of_answers(answer + b"\r\n\r\n" + await wire.rest(PATIENCE))
    wire.close()
    return outcome


async def let_in(target: Target, path: str, seconds: float = 60.0) -> Wire:
    """Return a connection after a valid handshake, as soon as the server has room.

    Raises AttackerFailed after `seconds`, or if the server refuses for another reason.
    """
    deadline = time.monotonic() + seconds
    while isinstance(found := await opened(target, path), Outcome):
        if found.verdict is not Verdict.BUSY or time.monotonic() > deadline:
            raise AttackerFailed(f"not accepted: {found.detail}")
        await asyncio.sleep(_AGAIN_SECONDS)
    return found


async def session(target: Target, sent: Session) -> Outcome:
    """Send the messages, and judge the end of the session."""
    wire = await opened(target, sent.path, sent.extensions)
    if isinstance(wire, Outcome):
        return wire
    try:
        if sent.spoken:
            return await _spoken(target, wire, sent)
        frames = (data if code == RAW else frame(code, data) for code, data in sent.sent)
        return await _conversed(wire, frames)
    finally:
        wire.close()


async def _conversed(wire: Wire, sent: Iterable[bytes]) -> Outcome:
    """Send, and read until the server has closed.

    A session that does not end by itself gets a close frame, as it may wait for more audio, and the
    end of the connection after that.
    """
    ending = Ending()
    for part in sent:
        await wire.send(part)
    for last in (b"", CLOSE):
        await wire.send(last)
        try:
            await ending.read_all(wire, PATIENCE)
            return ending.outcome()
        except Hung:
            pass
    await wire.rest(PATIENCE)
    await ending.read_all(wire)
    outcome = ending.outcome()
    if outcome.verdict is Verdict.CLOSED:
        return Outcome(Verdict.WAITED, f"after {len(ending.messages)} messages")
    return outcome


async def _spoken(target: Target, wire: Wire, sent: Session) -> Outcome:
    """Speak between the first message and the last, and judge the translations."""
    pcm = await asyncio.to_thread(lambda: to_int16(read_audio(Path(target.audio))).tobytes())
    (_, start), (_, end) = sent.sent
    await wire.send(frame(TEXT, start))
    for at in range(0, len(pcm), _PACKET_BYTES):
        await wire.send(frame(BINARY, pcm[at : at + _PACKET_BYTES]))
    await wire.send(frame(TEXT, end))
    ending = Ending()
    await ending.read_all(wire, TRANSLATED_SECONDS)
    outcome = ending.outcome()
    if outcome.verdict is not Verdict.ANSWERED:
        return outcome
    told: list[dict[str, Any]] = [json.loads(message) for message in ending.messages]
    return oracle.of_translations(told, len(json.loads(start)["translate"]))
