"""Attacks through the door for those who were admitted before, which the load does not close."""

from __future__ import annotations

import asyncio
import json

import numpy as np

from benchmarks.hostile.attackers.resumes import heard, token
from benchmarks.hostile.attackers.sockets import END, Ending, let_in, opened
from benchmarks.hostile.attackers.target import Target
from benchmarks.hostile.attackers.wire import Hung, Wire
from benchmarks.hostile.attacks.newcomer import (
    Held,
    is_let_in,
    slowest_live,
    until_let_in,
)
from benchmarks.hostile.generators.resumes import RESUMES, START
from benchmarks.hostile.generators.websocket import frame

_RESPONSIVE_SECONDS = 1.0
_PER_SECOND = 30
_SECONDS_OF_AUDIO = 5


def _start(text: str, from_sample: int) -> bytes:
    resume = {"token": text, "from_sample": from_sample}
    return frame(1, json.dumps(START | {"resume": resume}).encode())


async def false_tokens(target: Target, scale: float) -> Held:
    """Thirty of the longest tokens a second, none of them good; somebody else wants in."""
    over, wrong, count = asyncio.Event(), list[str](), 0
    first = _start("AQ".ljust(65_536, "A"), 0)  # looks good until it is opened
    await until_let_in(target)

    async def one() -> None:
        found = await opened(target, RESUMES)
        if isinstance(found, Wire):
            ending = Ending()
            try:
                await found.send(first)
                await heard(found, ending)
            except Hung:
                wrong.append("one was not answered")
            finally:
                found.close()
            if b"resume_" not in ending.error:
                wrong.append(f"close {ending.code} {ending.error[:100]!r}")

    async def attack() -> None:
        nonlocal count
        async with asyncio.TaskGroup() as tries:
            while not over.is_set():
                tries.create_task(one())
                count += 1
                await asyncio.sleep(1 / _PER_SECOND)

    attacking = asyncio.create_task(attack())
    refused = ""
    for _ in range(2 + int(13 * scale)):
        await asyncio.sleep(1.0)
        refused = refused or await is_let_in(target)
    over.set()
    await attacking
    return Held(
        not refused and not wrong,
        refused or "; ".join(wrong[:3]) or "all refused, and newcomers were let in all the time",
        count,
    )


async def one_token_many_times(target: Target, scale: float) -> Held:
    """One token on many connections at once, each with seconds of other audio at once: each ends
    in order, taken over by the next or not, the frontend answers meanwhile, and lets others in
    after it."""
    count = 2 + int(10 * scale)
    await until_let_in(target)
    first = _start(*await token(target))
    noise = np.random.default_rng(4).integers(-9_000, 9_000, _SECONDS_OF_AUDIO * 16_000)
    audio = frame(2, noise.astype("<i2").tobytes())
    over = asyncio.Event()
    watching = asyncio.create_task(slowest_live(target, over))

    async def one() -> str:
        wire, ending = await let_in(target, RESUMES), Ending()
        try:
            await wire.send(first + audio + END)
            await heard(wire, ending)
        except Hung:
            return "one was not answered"
        finally:
            wire.close()
        taken_over = b"resume_taken_over" in ending.error
        well = ending.code in (1000, 1013) or (ending.code == 1008 and taken_over)
        return "" if well else f"close {ending.code} {ending.error[:100]!r}"

    wrong = [what for what in await asyncio.gather(*(one() for _ in range(count))) if what]
    over.set()
    worst = await watching
    await until_let_in(target, 60.0)
    detail = "; ".join(wrong[:3]) or f"/live answered within {1000 * worst:.0f} ms"
    return Held(not wrong and worst < _RESPONSIVE_SECONDS, detail, count)
