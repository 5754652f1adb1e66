"""Probes: every processor, encode worker and PD worker that answers takes part in one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from auricle.errors import AuricleError
from auricle.frontend.diagnosis.deployment import Asked
from auricle.messages.diagnosis import AskProbe, ProbeAnswer, Probed, ProcessAnswer

MAX_PROBES = 64
_PROBE_SECONDS = 20.0
_ALL_SECONDS = 40.0
_PARTS = ("processor", "encode_worker", "pd_worker")
NOT_REACHED = "not_reached"


@dataclass(frozen=True)
class Route:
    """The instances that take part in a probe."""

    processor: int
    encode_worker: int
    pd_worker: int


def routes(answers: Iterable[ProcessAnswer]) -> tuple[Route, ...]:
    """Return as few routes as have every instance that answers and stays in one, at most 64.

    Not every pair of workers: their number is the product of the pools.
    """
    there: defaultdict[str, list[int]] = defaultdict(list)
    for answer in answers:
        if answer.description is not None and not answer.description.draining:
            there[answer.component].append(int(answer.instance or "0", 16))
    pools = [there[part] for part in _PARTS]
    if not all(pools):
        return ()
    most = min(max(map(len, pools)), MAX_PROBES)
    return tuple(Route(*(pool[n % len(pool)] for pool in pools)) for n in range(most))


async def probes(endpoint: Asked, wanted: Sequence[Route]) -> tuple[ProbeAnswer, ...]:
    """Make these probes, one at a time on each processor, for at most 40 s. Raises nothing."""
    answers: dict[Route, ProbeAnswer] = {}
    by_processor: defaultdict[int, list[Route]] = defaultdict(list)
    for route in wanted:
        by_processor[route.processor].append(route)

    async def one_processor(its: list[Route]) -> None:
        for route in its:
            answers[route] = await _probe(endpoint, route)

    try:
        async with asyncio.timeout(_ALL_SECONDS):
            if wanted:
                await endpoint.listed()  # connects
            await asyncio.gather(*map(one_processor, by_processor.values()))
    except (TimeoutError, AuricleError):
        pass  # those without an answer were not reached
    return tuple(answers.get(route) or _answer(route, fault=NOT_REACHED) for route in wanted)


async def _probe(endpoint: Asked, route: Route) -> ProbeAnswer:
    asked = AskProbe(route.encode_worker, route.pd_worker)
    try:
        steps = await endpoint.call(asked, Probed, route.processor, _PROBE_SECONDS)
    except AuricleError as error:
        return _answer(route, fault=error.code)
    assert isinstance(steps, Probed)
    return _answer(route, steps)


def _answer(route: Route, steps: Probed | None = None, fault: str = "") -> ProbeAnswer:
    return ProbeAnswer(
        processor=f"{route.processor:x}",
        encode_worker=f"{route.encode_worker:x}",
        pd_worker=f"{route.pd_worker:x}",
        steps=steps,
        fault=fault,
    )
