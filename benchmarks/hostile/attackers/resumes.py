"""A client that resumes its own sessions as it should not, and tries the tokens of another."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import islice

from msgspec.structs import replace

from benchmarks.hostile.attackers.sockets import CLOSE, END, Ending, let_in, opened
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import AttackerFailed, Hung, Wire
from benchmarks.hostile.case import UNEXPECTED, Case, Outcome, Verdict
from benchmarks.hostile.generators.resumes import (
    ANOTHERS,
    FRESH,
    OLDEST,
    SPOKEN,
    STARTS,
    STREAM,
    Resumption,
)
from benchmarks.hostile.generators.websocket import frame
from benchmarks.hostile.witness import speech

# Half of the time for which a token is good.
_RENEWED_SECONDS = 60.0
# A session is begun, or ended, within so long; on a busy machine that is more than an answer takes.
_SESSION_SECONDS = 30.0
_SPOKEN_PACKETS, _MORE_PACKETS = 60, 20
# A busy server may leave out a partial; it tries again when it has heard more.
_PARTIAL_SECONDS = 5.0
_TRIES = 12


class Resumes:
    """One connection after the other, of one client."""

    def __init__(self, target: Target) -> None:
        self._target = target
        # By which token it is: when it was given, it, and its `from_sample`.
        self._given: dict[str, tuple[float, str, int]] = {}

    async def attack(self, case: Case) -> Outcome:
        """Resume in the case's way; the worst outcome, if on several connections at once."""
        how: Resumption = case.data
        first = how.first(*await self._token(how.token))
        tries = (self._resumed(how, first) for _ in range(how.at_once))
        outcomes = await asyncio.gather(*tries)
        return max(outcomes, key=lambda outcome: outcome.verdict in UNEXPECTED)

    def close(self) -> None:
        """Every connection is closed when its case is over."""

    async def _token(self, which: str) -> tuple[str, int]:
        now = time.monotonic()
        at, *_ = self._given.get(which, (-_RENEWED_SECONDS,))
        if which not in self._given or (which != OLDEST and now - at > _RENEWED_SECONDS):
            key = self._target.newcomer if which == ANOTHERS else self._target.key
            target = replace(self._target, key=key)
            self._given[which] = (now, *await token(target, which))
        _, given, from_sample = self._given[which]
        return given, from_sample

    async def _resumed(self, how: Resumption, first: bytes) -> Outcome:
        wire = await opened(self._target, how.path)
        if isinstance(wire, Outcome):
            return wire
        ending = Ending()
        try:
            await wire.send(frame(1, first))
            taken = await _answered(wire, ending)
            # Without keys there is no other client.
            anyone = how.token == ANOTHERS and not self._target.newcomer
            if taken and how.refused and not anyone:
                return Outcome(Verdict.FAILED, "the session was resumed")
            if taken:
                await wire.send(b"".join(frame(2, packet) for packet in how.packets))
                await wire.send(END if how.ends and how.path.startswith(STREAM) else CLOSE)
            await heard(wire, ending)
            return ending.outcome()
        finally:
            wire.close()


async def token(target: Target, which: str = SPOKEN) -> tuple[str, int]:
    """Begin a session and leave it once there is text that will not change, or at once for FRESH;
    return its last token, and from where it goes on."""
    spoken = which != FRESH
    wire, ending = await let_in(target, STREAM, 20.0), Ending()
    try:
        await wire.send(frame(1, json.dumps(STARTS[which]).encode()))
        packets, count = speech(7), _SPOKEN_PACKETS
        for _ in range(_TRIES):
            if spoken:
                said = (packet.astype("<i2").tobytes() for packet in islice(packets, count))
                await wire.send(b"".join(frame(2, packet) for packet in said))
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
        while (payload := await _message(wire, ending, _PARTIAL_SECONDS)) is not None:
            event = json.loads(payload)
            if "resume" in event and (not spoken or event.get("committed") or event.get("text")):
                return event["resume"]["token"], event["resume"]["from_sample"]
    except Hung:
        pass
    return None


async def _answered(wire: Wire, ending: Ending) -> bool:
    """Whether the first answer is anything but an error."""
    payload = await _message(wire, ending)
    return payload is not None and not ending.error


async def heard(wire: Wire, ending: Ending) -> None:
    """Read until the session is over. Raises Hung if nothing comes for long."""
    while await _message(wire, ending) is not None:
        pass


async def _message(wire: Wire, ending: Ending, seconds: float = _SESSION_SECONDS) -> bytes | None:
    """Return the next text; None once the session is over. Raises Hung after `seconds`."""
    while not ending.code:
        found = wire.frame()
        if found is None:
            if not await wire.receive(seconds):
                return None
            continue
        ending.take(*found)
        if found[0] == 1:
            return found[1]
    return None
