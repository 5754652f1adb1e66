"""Offers sessions to the graph: of one tenant or of several at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import stream
from benchmarks.load.record import Failed, Record, Refused
from benchmarks.load.trial import Load, Trial, before_others, run_trial
from benchmarks.overload.graph import Graph

CHUNK_MS = 640
PACKET_MS = 100
_AGAIN_SECONDS = 0.5
_WITNESS = SpeechStyle((4.0, 6.0))


@dataclass(frozen=True)
class Offer:
    """Concurrent sessions of a tenant; each that ends is followed by another one."""

    tenant: str
    sessions: int


class Offering:
    """Offers of one run, with unique speech in every session."""

    def __init__(self, graph: Graph, lengths: tuple[float, float], seed: int) -> None:
        self._graph, self._style = graph, SpeechStyle(lengths)
        self._seeds = itertools.count(1000 * seed)

    def run(
        self,
        offers: Sequence[Offer],
        seconds: float,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Trial]:
        """Return a trial for each of the offers; `meanwhile` runs at the same time."""

        async def all_of_them() -> list[Trial]:
            trials = asyncio.gather(*(self._trial(offer, seconds) for offer in offers))
            if meanwhile is not None:
                await meanwhile()
            return await trials

        return asyncio.run(all_of_them())

    def normal_after(self, tenant: str, *, most: float = 60.0) -> tuple[float, Record]:
        """Return the seconds until a new client is admitted, and its session.

        Raises Failed if none is within `most` seconds.
        """
        return asyncio.run(self._witness(tenant, most))

    async def _trial(self, offer: Offer, seconds: float) -> Trial:
        load = Load(offer.sessions, seconds, PACKET_MS)
        planner = Planner(self._style, next(self._seeds))
        target = self._graph.target(offer.tenant, CHUNK_MS)
        return await run_trial(load, planner, stream.run, target)

    async def _witness(self, tenant: str, most: float) -> tuple[float, Record]:
        """Try to open a session until one is admitted, without regard to Retry-After."""
        plan = Planner(_WITNESS, next(self._seeds)).next()
        loop = asyncio.get_running_loop()
        began = loop.time()
        target = self._graph.target(tenant, CHUNK_MS)
        with before_others():
            while (passed := loop.time() - began) < most:
                record = Record(plan, PACKET_MS / 1000, loop.time())
                try:
                    await stream.run(target, record)
                except Refused:
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                record.outcome = "done"
                return passed, record
        raise Failed(f"no client was let in for {most:g} s")
