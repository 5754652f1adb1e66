"""The planner on the local graph: paced speech that grows eightfold and falls again.

Real processes are started and drained under the sessions. Silence is decoded too, so that
the segments of a session must be its audio without gap or overlap, to the sample.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httpx

from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.record import Record
from benchmarks.load.trial import Load, Trial, run_trial
from models.training.corpus import SAMPLE_RATE
from tests.server import ROOT, Server, serving

_STYLE = SpeechStyle((5.0, 20.0))
_SESSIONS, _TIMES = 2, 8
_SECONDS, _BURST_AT, _BURST_SECONDS = 150.0, 30.0, 60.0
# On two cores more workers carry no more; they are wanted here for what it takes to start and
# drain them. A fifth of its capacity is all a worker is to carry, and decisions come quickly.
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
    "--Processor.assured_sessions=64",
)
_PROFILE = ROOT / "configs/profiles/demo-cpu.json"
_WATCH_SECONDS = 1.0


def burst() -> tuple[dict[str, float], dict[str, Any]]:
    """Figures and details, with the planner and without."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    for planner in (True, False):
        records, watched, log = _run(planner)
        share = sum(Slo().kept(r) for r in records) / len(records)
        name = "on" if planner else "off"
        figures[f"local_slo_share_{name}"] = share
        details[f"local_{name}"] = {"sessions": len(records), "replicas": watched, "log": log}
        if planner:
            figures |= {
                "sessions_cut": float(sum(r.outcome != "done" for r in records)),
                "samples_uncovered": float(sum(_uncovered(r) for r in records)),
                "events_lost_or_doubled": float(sum(_lost_or_doubled(r) for r in records)),
                "local_sessions": float(len(records)),
                "local_changes": float(_changes(watched)),
            }
    return figures, details


def _run(planner: bool) -> tuple[list[Record], list[tuple[float, dict[str, int]]], list[str]]:
    options = [*_PLANNER, f"--Planner.profile={_PROFILE}"]
    if not planner:
        options[0] = "--Planner.replicas=0"
    with serving(*options) as server:
        trials, watched = asyncio.run(_loaded(server))
        log = [line for line in server.log if line.startswith("Planner") and "→" in line]
    return [r for trial in trials for r in trial.records], watched, log


async def _loaded(server: Server) -> tuple[Sequence[Trial], list[tuple[float, dict[str, int]]]]:
    target = Target(server.url, "demo", endpointing=False)
    session = protocol("stream")

    async def offered(sessions: int, at: float, seconds: float, seed: int) -> Trial:
        await asyncio.sleep(at)
        return await run_trial(Load(sessions, seconds), Planner(_STYLE, seed), session, target)

    watched: list[tuple[float, dict[str, int]]] = []
    watching = asyncio.create_task(_watch(server, watched))
    try:
        more = _SESSIONS * (_TIMES - 1)
        trials = await asyncio.gather(
            offered(_SESSIONS, 0.0, _SECONDS, seed=21),
            offered(more, _BURST_AT, _BURST_SECONDS, seed=22),
        )
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return trials, watched


async def _watch(server: Server, into: list[tuple[float, dict[str, int]]]) -> None:
    """Workers of both pools that are ready, whenever that changes."""
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
    """Samples of a finished session that are in no segment, or in more than one."""
    if record.outcome != "done":
        return 0
    ends_at, wrong = 0.0, 0.0
    for event in record.events:
        if event.final and event.begins is not None and event.covered is not None:
            wrong += abs(event.begins - ends_at)
            ends_at = event.covered
    # The protocol speaks in milliseconds, rounded down.
    length = len(record.plan.pcm) * 1000 // SAMPLE_RATE / 1000
    return round((wrong + abs(length - ends_at)) * SAMPLE_RATE)


def _lost_or_doubled(record: Record) -> int:
    """Finals that are missing or come twice, and committed text that went back."""
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
    """Workers that came or went."""
    return sum(
        abs(after[name] - before[name])
        for (_, before), (_, after) in pairwise(watched)
        for name in after
    )
