"""Hostile input against a running graph, over loopback, with a concurrent witness.

    python -m benchmarks.hostile --out FILE [--quick] [--seed N] [--only NAME …] [--config FILE]
    python -m benchmarks.hostile --replay ID [--config FILE]

The first form starts the graph, sends the cases of each area and tries each attack (`areas.py`),
each with a live session of new speech, and writes the figures and everything unexpected to FILE;
the graph's log is next to it. The exit status is 1 after a failure. The second form sends one case
again, and prints the outcome.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice

from benchmarks.harness import Benchmark, Run, UsageError, main, note
from benchmarks.hostile.areas import AREAS, ATTACKS
from benchmarks.hostile.attacks.newcomer import untranscribed
from benchmarks.hostile.figures import Campaign, details, figures
from benchmarks.hostile.graph import Footprint, Graph, Log, footprint, running
from benchmarks.hostile.inputs import make, parse_id
from benchmarks.hostile.strategies.values import MODEL_VARIABLE
from benchmarks.hostile.trial import Job, Row, attacked_with_witness, prepare_attackers
from benchmarks.hostile.witness import alone, speech

_NAMES = (*AREAS, *ATTACKS)
_MUST_BE_0 = (
    *("crashes", "hangs", "answers_5xx", "answers_leaking", "witness_changed_text"),
    *("witness_errors", "attackers_failed"),
)
_WARM_PACKETS, _SETTLE_SECONDS = 60, 45.0
_WITNESSES_AT_ONCE = 4  # more are refused, or get other words, and run again
_MOST_SHOWN = 4_000


class _Hostile:
    """One campaign: its graph, the log, and its results."""

    graph: Graph
    log: Log

    def __init__(self) -> None:
        self.found = Campaign()

    @contextmanager
    def around(self, run: Run) -> Iterator[None]:
        """Start the graph, and compute the figures at the end or after a failure."""
        arguments = run.arguments
        if arguments.replay is None and run.out is None:
            raise UsageError("give --out FILE or --replay ID")
        with running(arguments.config) as graph:
            os.environ[MODEL_VARIABLE] = graph.target().model
            self.graph, self.log = graph, Log(graph.server.log)
            if arguments.replay is None:
                yield from self._attacked(run)
            else:
                self._replay(arguments.replay)
        if arguments.replay is not None:
            sys.exit()
        if not arguments.only:  # measured in this process, without a graph
            from benchmarks.live import growth, holds  # the attackers' processes do without them

            quick = run.size == "quick"
            worst = growth.measure(quick=quick).growth_exponent_worst
            longest = holds.measure(quick=quick).longest_hold_ms
            run.publish({"growth_exponent_worst": worst, "longest_hold_ms": longest})
            run.save()
        sys.exit(any(run.figures[name] for name in _MUST_BE_0))

    def _attacked(self, run: Run) -> Iterator[None]:
        """Yield for the attacks, and save the results, also those until a failure."""
        graph = self.graph
        try:
            asyncio.run(_warm_up(graph, run.arguments.seed))
            self.found.before = footprint(graph.server, graph.folder)
            yield
            asyncio.run(_references(graph, self.found))
            self.found.after = asyncio.run(_settled(graph, self.found.before))
        finally:
            assert run.out is not None
            run.out.with_suffix(".log").write_text("\n".join(graph.server.log) + "\n")
            run.extra["seed"] = run.arguments.seed
            run.details = details(self.found)
            run.publish(figures(self.found))
            run.save()

    def _row(self, job: Job, speech_seed: int) -> Row:
        lead = 1.0 if job.quick else 6.0
        row = asyncio.run(
            attacked_with_witness(self.graph, speech(speech_seed), job, self.log, lead)
        )
        note(
            f"{row} lag ≤ {max(row.lags_during, default=0.0):.2f} s, {row.log_lines} lines, "
            f"frontend {row.frontend_cpu_seconds:.1f} CPU s and {row.memory_growth:.2f} of its "
            f"memory, attacker {row.said.cpu_seconds:.1f} CPU s"
        )
        return row

    def part(self, name: str, run: Run) -> None:
        """Run an area or attack with a concurrent witness."""
        seed = run.arguments.seed
        job = Job(name, seed, run.size == "quick")
        self.found.rows.append(self._row(job, seed * 1_000 + _NAMES.index(name)))
        if name in AREAS:
            time.sleep(AREAS[name].forgotten_seconds)

    def _replay(self, case_id: str) -> None:
        """Send a case with a concurrent witness, and print it, the outcome and the log."""
        name, seed, number = parse_id(case_id)
        print(repr(make(name, seed, number, AREAS[name].strategy))[:_MOST_SHOWN])
        at = len(self.graph.server.log)
        row = self._row(Job(name, seed, number=number), number)
        print(*(outcome.detail for _, outcome in row.said.remarkable))
        print("\n".join(self.graph.server.log[at:]))


async def _warm_up(graph: Graph, seed: int) -> None:
    """Use every entry once, so that permanent state exists before the first measurement."""
    await asyncio.to_thread(prepare_attackers)
    url, key = graph.server.url, graph.keys["witness"]
    spoken = [list(islice(speech(seed * 1_000 + 900 + n), _WARM_PACKETS)) for n in range(3)]
    await asyncio.gather(*(alone(url, key, packets) for packets in spoken))
    for _ in range(2):
        await untranscribed(graph.target(), 60.0)


async def _references(graph: Graph, found: Campaign) -> None:
    """The text of each witness without an attack.

    Several run at a time, the longest first. Those whose text differs or that the server refused
    run again, alone.
    """
    rows = [row for row in found.rows if row.account.packets]
    rows.sort(key=lambda row: len(row.account.packets), reverse=True)
    url, key = graph.server.url, graph.keys["witness"]
    places = asyncio.Semaphore(_WITNESSES_AT_ONCE)

    async def said_again(row: Row) -> None:
        async with places:
            row.reference = await alone(url, key, row.account.packets)

    await asyncio.gather(*map(said_again, rows))
    again = [row for row in rows if row.changed or (row.reference and row.reference.error)]
    note(f"{len(again)} of {len(rows)} witnesses once more, alone")
    for row in again:
        row.reference = await alone(url, key, row.account.packets)


async def _settled(graph: Graph, before: Footprint) -> Footprint:
    """The resources once they are the same as before, or after 45 s."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        now = await asyncio.to_thread(footprint, graph.server, graph.folder)
        same = now.files <= before.files and all(
            now.components[name].descriptors <= held.descriptors
            and now.components[name].processes <= held.processes
            for name, held in before.components.items()
            if name in now.components
        )
        if same or time.monotonic() > deadline:
            return now
        await asyncio.sleep(1.0)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="from 1")
    parser.add_argument("--replay", metavar="ID", help="an unexpected case of a result file")
    parser.add_argument("--config", default="configs/demo.yaml", help="the served configuration")


_HOSTILE = _Hostile()
BENCHMARK = Benchmark(
    description=__doc__,
    parts={name: partial(_HOSTILE.part, name) for name in _NAMES},
    arguments=_arguments,
    around=_HOSTILE.around,
    sizes=("quick",),
    out="optional",
)

if __name__ == "__main__":
    main(BENCHMARK)
