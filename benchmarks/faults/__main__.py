"""Known audio through every kind of fault, over real processes.

    python -m benchmarks.faults --out FILE [--quick] [--seed N] [--only KIND …] [--count N]
                                [--lanes N] [--config FILE] [--engine NAME]
                                [--audio FILE …] [--resume]

Starts a graph with two of each process, transcribes each recording undisturbed, and then injects
one fault after the other at random moments of live sessions, two (`--lanes`) at a time. Every
transcript is compared word by word with the undisturbed one. Rows are appended to FILE at once
(`--resume` continues it); the graph's log is next to it. Exits with 1 if a word or an event was
lost or doubled, a session failed, or something was left behind. `--quick` takes five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from auricle.config.devices import EngineName
from auricle.launcher.config import load_config, settings_for
from auricle_testing.replicas import ENGINE_PROCESSES
from benchmarks.faults import leftovers
from benchmarks.faults.disk import mountable, temporary
from benchmarks.faults.figures import Row, figures
from benchmarks.faults.graph import Graph, running
from benchmarks.faults.kinds import DISK, KINDS, PD
from benchmarks.faults.plan import CONFIG, LANES, Fault, planned
from benchmarks.faults.run import Run
from benchmarks.harness import (
    Journal,
    add_sizes,
    end_with_signals,
    environment,
    new_parser,
    show,
)

_MUST_BE_NONE = (
    "words_lost", "words_doubled", "sessions_failed", "promises_broken", "bus_lost", "bus_doubled",
    "resume_events_lost_or_doubled", "left_behind", "faults_not_injected",
)  # fmt: skip


def main() -> None:
    """Run the faults of the command line."""
    parser = new_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    add_sizes(parser, ("quick",))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", "--only", metavar="KIND", nargs="+", choices=[*KINDS])
    parser.add_argument("--count", type=int, help="number of faults; by default as planned")
    parser.add_argument("--lanes", type=int, default=LANES, help="concurrent sessions")
    parser.add_argument("--config", default=CONFIG, help="settings of the graph")
    parser.add_argument(
        "--engine", choices=get_args(EngineName), help="by default as in the settings"
    )
    parser.add_argument("--audio", metavar="FILE", nargs="+", default=[], help="recordings")
    parser.add_argument("--resume", action="store_true", help="continue FILE")
    chosen = parser.parse_args()
    end_with_signals()
    only, quick = chosen.kinds or [], chosen.size == "quick"
    names = ("seed", "count", "lanes", "config", "engine", "audio")
    arguments = {"only": only, "quick": quick} | {name: getattr(chosen, name) for name in names}
    plan = planned(chosen.seed, quick=quick, only=only, count=chosen.count, audio=chosen.audio)
    if not mountable():
        disk = [fault for fault in plan if fault.of.target == DISK]
        plan = _without(disk, plan, "of the disk", "only root can mount one to fill")
    engine = _engine(chosen.config, chosen.engine)
    if engine not in ENGINE_PROCESSES:
        of_engine = [fault for fault in plan if fault.of.of_engine]
        plan = _without(of_engine, plan, "of engines' processes", f"{engine} has none")
    if not plan:
        parser.error("no fault is left")
    journal = Journal(chosen.out)
    if chosen.resume:
        try:
            done = _done(journal, arguments)
        except (OSError, ValueError) as error:
            parser.error(f"--resume: {error}")
        plan = [fault for fault in plan if fault.number not in done]
    else:
        journal.begin()
        journal.add({"type": "run", "arguments": arguments, "environment": environment()})
    if plan:
        _run(plan, chosen, journal)
    measured = figures(journal.rows())
    show(measured)
    sys.exit(any(measured[name] for name in _MUST_BE_NONE))


def _without(some: Sequence[Fault], plan: Sequence[Fault], kind: str, why: str) -> list[Fault]:
    """Return the other faults of a plan, and print why these are left out."""
    if some:
        print(f"{len(some)} faults {kind} are left out: {why}")
    return [fault for fault in plan if fault not in some]


def _engine(config: str, chosen: EngineName | None) -> EngineName:
    overrides = [f"--PdWorker.engine={chosen}"] if chosen else []
    engine: EngineName = settings_for(PD, load_config(Path(config), overrides), config).engine
    return engine


def _done(journal: Journal, arguments: dict[str, Any]) -> set[int]:
    """Return the numbers of the faults in a file.

    Raises ValueError unless the file is from a run with the same arguments.
    """
    rows = journal.rows()
    begun = next((row["arguments"] for row in rows if row["type"] == "run"), None)
    if begun != arguments:
        raise ValueError(f"{journal.path} is from a run with {begun}, not {arguments}")
    return {row["number"] for row in rows if row["type"] == "fault"}


def _run(plan: Sequence[Fault], chosen: argparse.Namespace, journal: Journal) -> None:
    before, left = leftovers.shared_memory(), []

    def record(row: Row) -> None:
        journal.add(row)
        print(_line(row), flush=True)

    log: list[str] = []
    with temporary() as folder:
        try:
            with running(folder, chosen.config, chosen.engine) as graph:
                log = graph.server.log
                asyncio.run(_faults(graph, chosen.lanes, plan, record))
                left += leftovers.held(graph)
        except AssertionError as error:
            if not log:
                raise  # it did not start
            # It did not recover, did not end in order, or left processes or records.
            left.append(str(error)[:500])
        finally:
            journal.path.with_suffix(".log").write_text("\n".join(log) + "\n")
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
