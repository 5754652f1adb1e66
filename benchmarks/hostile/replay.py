"""Sends one case again, and shows what is said about it."""

from __future__ import annotations

import asyncio
import os

from benchmarks.hostile.areas import AREAS
from benchmarks.hostile.attack import liars_environment
from benchmarks.hostile.case import make, parse_id
from benchmarks.hostile.graph import Graph
from benchmarks.hostile.pool import attacked
from benchmarks.hostile.watch import Log
from benchmarks.hostile.witness import Witness, speech

_LATER_SECONDS = 1.0
_MOST_SHOWN = 2_000


async def replay(graph: Graph, case_id: str) -> None:
    """Send the case beside a witness and print what was sent, what came back, and the log."""
    name, seed, number = parse_id(case_id)
    area = AREAS[name]
    case = make(name, seed, number, area.generate)
    log = Log(graph.server.log)
    witness = Witness(graph.server.url, graph.keys["witness"], speech(number))
    await witness.begin()
    log.since()
    target = graph.target()
    os.environ |= liars_environment(target)
    print(f"{case.id}, {case.kind}: {case.data!r}"[:_MOST_SHOWN])
    tally = await attacked(area, target, iter([case]), lambda _: None, 60.0)
    print(dict(tally.kinds), *(outcome.detail for _, outcome in tally.remarkable))
    await asyncio.sleep(_LATER_SECONDS)  # what it leads to may come later
    print("\n".join(log.since()))
    account = await witness.end()
    print(f"the witness: {account.error or account.text}")
