"""Who is there: asks discovery for all processes, and all processes for a description."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from auricle.errors import AuricleError
from auricle.frontend.diagnosis.deployment import Asked
from auricle.messages.diagnosis import AskDescription, Description, ProcessAnswer

# Asked at once.
MAX_PROCESSES = 256
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True)
class Census:
    """The answers in order of component and instance, what was left out, and what failed."""

    answers: tuple[ProcessAnswer, ...]
    unasked: int
    unlisted: tuple[str, ...]


async def census(
    processes: Mapping[str, Asked], wall_clock: Callable[[], float] = time.time
) -> Census:
    """Ask all processes at once, each with a deadline of 3 s. Raises nothing."""
    listed = await asyncio.gather(*(_listed(asked) for asked in processes.values()))
    found = [
        (component, instance)
        for component, instances in zip(processes, listed, strict=True)
        for instance in sorted(instances or ())
    ]
    chosen = found[:MAX_PROCESSES]
    answers = await asyncio.gather(
        *(_describe(c, processes[c], instance, wall_clock) for c, instance in chosen)
    )
    unlisted = tuple(c for c, some in zip(processes, listed, strict=True) if some is None)
    return Census(tuple(answers), len(found) - len(chosen), unlisted)


async def _listed(asked: Asked) -> list[int] | None:
    try:
        return await asked.listed()
    except AuricleError:
        return None


async def _describe(
    component: str, asked: Asked, instance: int, wall_clock: Callable[[], float]
) -> ProcessAnswer:
    name, began, sent = f"{instance:x}", time.monotonic(), wall_clock()
    try:
        reply = await asked.call(AskDescription(), Description, instance, _ANSWER_SECONDS)
    except AuricleError as error:
        return ProcessAnswer(component, name, time.monotonic() - began, fault=error.code)
    seconds = time.monotonic() - began
    assert isinstance(reply, Description)
    ahead = reply.clock - (sent + seconds / 2)
    return ProcessAnswer(component, name, seconds, reply, clock_ahead_seconds=ahead)
