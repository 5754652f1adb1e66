"""Attacks on what is translated: sessions of both protocols, and recordings."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auricle.audio.decode import read_audio
from auricle.audio.pcm import to_int16
from benchmarks.hostile.attackers.http import posted
from benchmarks.hostile.attackers.sockets import Ending, conversed, opened
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Wire
from benchmarks.hostile.case import Case, Outcome, Verdict
from benchmarks.hostile.generators.websocket import frame

_CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_PACKET_BYTES = 64_000
# More than Processor.translation_deadline_seconds, when a translation is said to be missing.
TRANSLATED_SECONDS = 20.0


async def translations(target: Target, case: Case) -> Outcome:
    """Open a session and send the case's messages, or post its form."""
    made = case.data
    if "body" in made:
        return await posted(target, made["path"], made["content_type"], made["body"])
    wire = await opened(target, made["path"])
    if isinstance(wire, Outcome):
        return wire
    frames = [frame(opcode, payload) for opcode, payload in made["sent"]]
    if made.get("speech"):
        heard = await _spoken(wire, frames, await asyncio.to_thread(_speech, target.audio))
        ended = heard.outcome()
        asked = len(json.loads(made["sent"][0][1])["translate"])
        return judged(heard.told, asked) if ended.verdict is Verdict.ANSWERED else ended
    return await conversed(wire, frames, until_closed=True)


def _speech(file: str) -> bytes:
    return to_int16(read_audio(Path(file))).tobytes()


@dataclass
class _Heard(Ending):
    """What was said, and how it ended."""

    told: list[dict[str, Any]] = field(default_factory=list)

    def take(self, opcode: int, payload: bytes) -> None:
        """Take one frame of the server."""
        super().take(opcode, payload)
        if opcode == 1:
            self.told.append(json.loads(payload))


async def _spoken(wire: Wire, sent: list[bytes], pcm: bytes) -> _Heard:
    """Speak between the first message and the last, and read until the server has closed."""
    start, end = sent
    heard = _Heard()
    try:
        await wire.send(start)
        for at in range(0, len(pcm), _PACKET_BYTES):
            await wire.send(frame(2, pcm[at : at + _PACKET_BYTES]))
        await wire.send(end)
        while not heard.code:
            if (found := wire.frame()) is not None:
                heard.take(*found)
            elif not await wire.receive(TRANSLATED_SECONDS):
                break
    finally:
        wire.close()
    return heard


def judged(told: list[dict[str, Any]], asked: int) -> Outcome:
    """Judge a session that was right, with translations into so many languages: each final has a
    last one into each, with a text or with what kept it, and none has control tokens."""
    finals = {one["segment"] for one in told if one["type"] == "final" and one["text"]}
    last = [one for one in told if one["type"] == "translation" and one.get("final")]
    if not finals or len({(one["segment"], one["language"]) for one in last}) != (
        len(finals) * asked
    ):
        return Outcome(Verdict.FAILED, f"not all of segments {finals} are translated: {last}"[:300])
    for one in last:
        if not one["committed"] and not one.get("missing"):
            return Outcome(Verdict.FAILED, f"no text, and no word why: {one}")
        if any(token in one["committed"] for token in _CONTROL):
            return Outcome(Verdict.LEAKED, f"a control token is told: {one}"[:300])
    return Outcome(Verdict.ANSWERED, f"{len(last)} translations")
