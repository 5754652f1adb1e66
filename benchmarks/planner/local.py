"""The planner on the local graph: paced speech that grows eightfold and falls again.

Real processes are started and drained under the sessions. Silence is decoded too, so that
the segments of a session must be its audio without gap or overlap, to the sample.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import httpx

from auricle_testing.server import ROOT, Server, serving
from benchmarks.harness import Run
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.record import Record
from benchmarks.load.trial import Load, Trial, run_trial
from models.training.corpus import SAMPLE_RATE

_SESSIONS, _TIMES = 2, 8
# On two cores more workers carry no more load; the subject is their start and drain. The target is
# a fifth of a worker's capacity, and decisions come quickly.
_PLANNER = (
    "--Planner.replicas=1",
    "--Planner.target=0.2",
    "--Planner.step_seconds=2",
    "--Planner.ebb_seconds=4",
    "--Planner.settle_seconds=10",
    "--Planner.encode={maximum: 2}",
    "--Planner.pd={maximum: 2}",
    "--Common.load_report_seconds=1",
    "--Processor.target_chunk_ms=2000",
    "--Processor.admission=fixed",
)
PROFILE = ROOT / "configs/profiles/demo-cpu.json"
_WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Burst:
    """Seconds of the whole load, and begin and length of the burst in it."""

    seconds: float
    begins: float
    lasts: float
    lengths: tuple[float, float]  # of sessions


_FULL = Burst(150.0, 30.0, 60.0, (5.0, 20.0))
BURSTS = {"full": _FULL, "quick": _FULL, "smoke": Burst(20.0, 2.0, 16.0, (2.0, 3.0))}


def burst(run: Run, load: Burst) -> None:
    """Run the burst with the planner and without it."""
    for planner in (True, False):
        name = "on" if planner else "off"
        trials, watched, log = _run(planner, load)
        records = [r for trial in trials for r in trial.records]
        share = sum(Slo().kept(r) for r in records) / max(1, len(records))
        figures = {f"local_slo_share_{name}": share}
        if planner:
            figures |= {
                "sessions_cut": float(sum(r.outcome != "done" for r in records)),
                "samples_uncovered": float(sum(_uncovered(r) for r in records)),
                "events_lost_or_doubled": float(sum(_lost_or_doubled(r) for r in records)),
                "local_sessions": float(len(records)),
                "local_changes": float(_changes(watched)),
            }
        details = {"sessions": len(records), "replicas": watched, "log": log}
        run.details[f"local_{name}"] = details
        run.publish(figures, next((trial.invalid for trial in trials if trial.invalid), ""))


def _run(
    planner: bool, load: Burst
) -> tuple[Sequence[Trial], list[tuple[float, dict[str, int]]], list[str]]:
    options = [*_PLANNER, f"--Planner.profile={PROFILE}"]
    if not planner:
        options[0] = "--Planner.replicas=0"
    with serving(*options) as server:
        trials, watched = asyncio.run(_loaded(server, load))
        log = [line for line in server.log if line.startswith("Planner") and "→" in line]
    return trials, watched, log


async def _loaded(
    server: Server, load: Burst
) -> tuple[Sequence[Trial], list[tuple[float, dict[str, int]]]]:
    target = Target(server.url, "demo", endpointing=False)
    session = protocol("stream")

    async def offered(sessions: int, at: float, seconds: float, seed: int) -> Trial:
        await asyncio.sleep(at)
        return await run_trial(
            Load(sessions, seconds), Planner(SpeechStyle(load.lengths), seed), session, target
        )

    watched: list[tuple[float, dict[str, int]]] = []
    watching = asyncio.create_task(_watch(server, watched))
    try:
        more = _SESSIONS * (_TIMES - 1)
        trials = await asyncio.gather(
            offered(_SESSIONS, 0.0, load.seconds, seed=21),
            offered(more, load.begins, load.lasts, seed=22),
        )
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return trials, watched


async def _watch(server: Server, into: list[tuple[float, dict[str, int]]]) -> None:
    """Record the ready workers of both pools at every change."""
    socket = server.component("Processor").environ()["AURICLE_LAUNCHER"]
    began = time.monotonic()
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=socket)) as client:
        while True:
            counts = (await client.get("http://launcher/components")).json()
            ready = {name: counts[name]["ready"] for name in ("EncodeWorker", "PdWorker")}
            if not into or into[-1][1] != ready:
                into.append((round(time.monotonic() - began, 1), ready))
            await asyncio.sleep(_WATCH_SECONDS)


def _uncovered(record: Record) -> int:
    """Count samples of a finished session that are in no segment or in several."""
    if record.outcome != "done":
        return 0
    ends_at, wrong = 0.0, 0.0
    for event in record.events:
        if event.final and event.begins is not None and event.covered is not None:
            wrong += abs(event.begins - ends_at)
            ends_at = event.covered
    # The protocol reports milliseconds, rounded down.
    length = len(record.plan.pcm) * 1000 // SAMPLE_RATE / 1000
    return round((wrong + abs(length - ends_at)) * SAMPLE_RATE)


def _lost_or_doubled(record: Record) -> int:
    """Count missing and repeated finals, and changes of committed text."""
    if record.outcome != "done":
        return 0
    finals = [event for event in record.events if event.final]
    wrong = abs(len(finals) - len({event.segment for event in finals}))
    wrong += sum(event.segment != number for number, event in enumerate(finals))
    committed: dict[int, str] = {}
    for event in record.events:
        wrong += not event.committed.startswith(committed.get(event.segment, ""))
        committed[event.segment] = event.committed
    wrong += " ".join(e.committed for e in finals if e.committed) != record.text
    return wrong


def _changes(watched: Sequence[tuple[float, dict[str, int]]]) -> int:
    """Count the changes of workers."""
    return sum(
        abs(after[name] - before[name])
        for (_, before), (_, after) in pairwise(watched)
        for name in after
    )
