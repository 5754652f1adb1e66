"""A client that resumes its own sessions wrongly, and tries the tokens of another client."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import islice

from msgspec.structs import replace

from auricle_testing.wire import BINARY, TEXT, frame
from benchmarks.hostile.attackers.sockets import Ending, let_in, opened
from benchmarks.hostile.attackers.wire import AttackerFailed, Hung, Target, Wire
from benchmarks.hostile.inputs import Resumption
from benchmarks.hostile.oracle import UNEXPECTED, Outcome, Verdict
from benchmarks.hostile.strategies import resumes
from benchmarks.hostile.strategies.http import CLOSE, END
from benchmarks.hostile.strategies.messages import STREAM
from benchmarks.hostile.witness import speech

# Half of the time for which a token is valid.
_RENEWED_SECONDS = 60.0
# On a busy machine the start or end of a session takes longer than an answer.
SESSION_SECONDS = 30.0
_SPOKEN_PACKETS, _MORE_PACKETS = 60, 20
# A busy server may leave out a partial; the next one comes with more audio.
_PARTIAL_SECONDS = 5.0
_TRIES = 12


class Resumes:
    """Connections of one client, which share its tokens."""

    def __init__(self, target: Target) -> None:
        self._target = target
        # For each kind of token: when it was given, it, and its `from_sample`.
        self._given: dict[str, tuple[float, str, int]] = {}

    async def resume(self, how: Resumption) -> Outcome:
        """Resume in that way; return the worst outcome of several connections."""
        first = resumes.first_message(how, *await self._token(how.token))
        tries = (self._resumed(how, first) for _ in range(how.at_once))
        return max(await asyncio.gather(*tries), key=lambda one: one.verdict in UNEXPECTED)

    async def _token(self, which: str) -> tuple[str, int]:
        now = time.monotonic()
        given = self._given.get(which)
        if given is None or (which != resumes.OLDEST and now - given[0] > _RENEWED_SECONDS):
            key = self._target.newcomer if which == resumes.ANOTHERS else self._target.key
            given = (now, *await token(replace(self._target, key=key), which))
            self._given[which] = given
        return given[1:]

    async def _resumed(self, how: Resumption, first: bytes) -> Outcome:
        wire = await opened(self._target, how.path)
        if isinstance(wire, Outcome):
            return wire
        ending = Ending()
        try:
            await wire.send(frame(TEXT, first))
            taken = await ending.read(wire, SESSION_SECONDS) is not None and not ending.error
            # Without keys all clients are one.
            anyone = how.token == resumes.ANOTHERS and not self._target.newcomer
            if taken and how.refused and not anyone:
                return Outcome(Verdict.FAILED, "the session was resumed")
            if taken:
                await wire.send(b"".join(frame(BINARY, packet) for packet in how.packets))
                await wire.send(END if how.ends and how.path.startswith(STREAM) else CLOSE)
            await ending.read_all(wire, SESSION_SECONDS)
            return ending.outcome()
        finally:
            wire.close()


async def token(target: Target, which: str = resumes.SPOKEN) -> tuple[str, int]:
    """Begin a session and leave it after its first committed text, or at once for FRESH.

    Return its last token and the position from which it continues. Raises AttackerFailed.
    """
    spoken = which != resumes.FRESH
    wire, ending = await let_in(target, STREAM, 20.0), Ending()
    try:
        await wire.send(frame(TEXT, json.dumps(resumes.STARTS[which]).encode()))
        packets, count = speech(7), _SPOKEN_PACKETS
        for _ in range(_TRIES):
            if spoken:
                said = (packet.astype("<i2").tobytes() for packet in islice(packets, count))
                await wire.send(b"".join(frame(BINARY, packet) for packet in said))
            if (found := await _given(wire, ending, spoken)) is not None:
                return found
            if ending.code:
                break
            count = _MORE_PACKETS
    finally:
        wire.close()
    raise AttackerFailed(f"no token was given: close {ending.code} {ending.error[:100]!r}")


async def _given(wire: Wire, ending: Ending, spoken: bool) -> tuple[str, int] | None:
    """Return the next token, if `spoken` one with text; None if none comes for a while."""
    try:
        while (payload := await ending.read(wire, _PARTIAL_SECONDS)) is not None:
            event = json.loads(payload)
            if "resume" in event and (not spoken or event.get("committed") or event.get("text")):
                return event["resume"]["token"], event["resume"]["from_sample"]
    except Hung:
        pass
    return None
