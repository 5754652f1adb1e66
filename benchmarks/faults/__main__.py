"""Known audio through every kind of fault, over real processes.

    python -m benchmarks.faults --out FILE [--quick] [--seed N] [--only KIND …] [--count N]
                                [--lanes N] [--config FILE]
                                [--audio FILE …] [--resume]

Starts a graph with two of each process, hears each recording undisturbed, and then
does one fault after the other at random moments of live sessions, two (`--lanes`) at a time. Every
transcript is compared word by word with the undisturbed one. Rows are appended to FILE as they
are known (`--resume` goes on with them); the graph's log lies beside it. Ends with 1 if a word was
or an event was lost or doubled, a session failed, or something was left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.faults import leftovers
from benchmarks.faults.disk import mountable, temporary
from benchmarks.faults.figures import Row, figures
from benchmarks.faults.graph import Graph, running
from benchmarks.faults.kinds import DISK, KINDS
from benchmarks.faults.plan import CONFIG, LANES, Fault, planned
from benchmarks.faults.results import Results
from benchmarks.faults.run import Run
from benchmarks.streaming.environment import environment

_MUST_BE_NONE = (
    "words_lost", "words_doubled", "sessions_failed", "promises_broken", "bus_lost", "bus_doubled",
    "resume_events_lost_or_doubled", "left_behind", "faults_not_injected",
)  # fmt: skip


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="about 35 faults in five minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="KIND", nargs="+", choices=[*KINDS])
    parser.add_argument("--count", type=int, help="how many faults; by default what is planned")
    parser.add_argument("--lanes", type=int, default=LANES, help="sessions at a time")
    parser.add_argument("--config", default=CONFIG, help="settings of the graph")
    parser.add_argument("--audio", metavar="FILE", nargs="+", default=[], help="recordings")
    parser.add_argument("--resume", action="store_true", help="go on with FILE")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    only = chosen.only or []
    names = ("seed", "quick", "count", "lanes", "config", "audio")
    arguments = {"only": only} | {name: getattr(chosen, name) for name in names}
    plan = planned(
        chosen.seed, quick=chosen.quick, only=only, count=chosen.count, audio=chosen.audio
    )
    if not mountable() and (left_out := [f for f in plan if f.of.target == DISK]):
        print(f"{len(left_out)} faults of the disk are left out: only root may mount one to fill")
        plan = [fault for fault in plan if fault not in left_out]
    results = Results(chosen.out)
    if chosen.resume:
        try:
            done = results.done(arguments)
        except (OSError, ValueError) as error:
            parser.error(f"--resume: {error}")
        plan = [fault for fault in plan if fault.number not in done]
    else:
        results.begin(arguments, environment())
    if plan:
        _run(plan, chosen.lanes, chosen.config, results)
    measured = figures(results.rows())
    for name, value in measured.items():
        print(f"{name:28} {value:.6g}")
    sys.exit(any(measured[name] for name in _MUST_BE_NONE))


def _run(plan: Sequence[Fault], lanes: int, config: str, results: Results) -> None:
    before, left = leftovers.shared_memory(), []

    def record(row: Row) -> None:
        results.add(row)
        print(_line(row), flush=True)

    log: list[str] = []
    with temporary() as folder:
        try:
            with running(folder, config) as graph:
                log = graph.server.log
                asyncio.run(_faults(graph, lanes, plan, record))
                left += leftovers.held(graph)
        except AssertionError as error:
            if not log:
                raise  # it did not start
            # It did not become whole, did not end in order, or left processes or records.
            left.append(str(error)[:500])
        finally:
            results.path.with_suffix(".log").write_text("\n".join(log) + "\n")
        left += [f"file {path}" for path in leftovers.files(folder / "tmp")]
    left += [f"shared memory {path}" for path in sorted(leftovers.shared_memory() - before)]
    record({"type": "left", "what": left})


async def _faults(
    graph: Graph, lanes: int, plan: Sequence[Fault], record: Callable[[Row], None]
) -> None:
    async with graph.proxied():
        run = Run(graph, lanes, record)
        await run.all(plan)
        record(await run.bus())


def _line(row: Row) -> str:
    if row["type"] == "reference":
        return f"undisturbed {row['audio']}: {row['text']}"
    if row["type"] == "bus":
        return f"bus: {row['missing']} of {row['heard']} missing, {row['surplus']} too many"
    if row["type"] == "left":
        return f"left behind: {', '.join(row['what']) or 'nothing'}"
    worst = max((hit["recovery"] or 0.0 for hit in row["hits"]), default=0.0)
    verdict = "identical" if row["identical"] else (
        f"{row['lost']} lost, {row['doubled']} doubled, {row['changed']} changed"
    )  # fmt: skip
    said = [f"{row['number']:3} {row['kind']:22} {row['audio']:8} {verdict}, {worst:.1f} s"]
    if row["resumes"]:
        said.append(f"{row['resumes']} resumed")
        events = row["events_lost"], row["events_doubled"]
        said += ["{} events lost, {} doubled".format(*events)] if any(events) else []
    said += [row[name] for name in ("error", "broken", "why_not") if row[name]]
    return "  ".join(said)


if __name__ == "__main__":
    main()
