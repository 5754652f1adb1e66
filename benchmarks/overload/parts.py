"""The parts of the benchmark, each of which measures some figures and their details."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load.capacity import CapacitySearch, Condition
from benchmarks.load.metrics import Slo, percentile
from benchmarks.load.record import Record
from benchmarks.load.subjects import Subject
from benchmarks.load.subjects import running as searched
from benchmarks.load.trial import Trial
from benchmarks.overload import figures
from benchmarks.overload.graph import BESIDE, FIRST, FLOOD, Graph
from benchmarks.overload.offers import CHUNK_MS, Offer, Offering

TIMES = (2, 3, 10)
# Who is beside the flood, or comes first, has so many sessions at a time.
_FEW = 3
_FIRST_GUESS = 28


@dataclass(frozen=True)
class Scale:
    """Seconds of everything; a search of capacity goes up to `most` and is repeated."""

    lengths: tuple[float, float]
    trial_seconds: float
    repeats: int
    resolution: float
    most: int
    flood_seconds: float
    phase_seconds: float
    tenants_seconds: float


FULL = Scale((10.0, 60.0), 150.0, 3, 0.1, 256, 600.0, 240.0, 240.0)
QUICK = Scale((10.0, 60.0), 110.0, 1, 0.2, 256, 150.0, 150.0, 120.0)
SMOKE = Scale((2.0, 3.0), 9.0, 1, 0.2, 1, 9.0, 9.0, 9.0)


@dataclass
class Results:
    """What is known so far. `invalid` says of a figure why it could not be measured."""

    scale: Scale
    work: Path
    told: Callable[[str], None]
    figures: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    invalid: dict[str, str] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """How many sessions are offered at once the capacity: as measured, by this or by an
        earlier run."""
        return max(1, round(self.figures.get("capacity_sessions", _FIRST_GUESS)))

    def publish(self, invalid: str, found: dict[str, float]) -> None:
        """Store figures, or the reason why they are `invalid`."""
        for name, value in found.items():
            self.figures.pop(name, None)
            self.invalid.pop(name, None)
            if invalid:
                self.invalid[name] = invalid
            else:
                self.figures[name] = value
        said = (f"{name} {value:.3g}" for name, value in found.items())
        self.told(f"invalid: {invalid}" if invalid else ", ".join(said))


def capacity(results: Results) -> None:
    """Search how many sessions are carried if nobody is refused."""
    scale = results.scale
    condition = Condition(CHUNK_MS, scale.lengths, scale.trial_seconds, worst_wer=0.25)
    subject = Subject("ours", "demo")
    with searched(subject, results.work, "--Processor.admission=fixed") as server:
        search = CapacitySearch(
            subject, server, condition, repeats=scale.repeats, told=results.told
        ).run(min(_FIRST_GUESS, scale.most), most=scale.most, resolution=scale.resolution)
    results.details["capacity"] = search.plain()
    carried = search.points.get(search.capacity)
    goodput = statistics.median(map(figures.goodput, carried.trials)) if carried else 0.0
    results.publish("", {"capacity_sessions": search.capacity, "capacity_goodput": goodput})


def floods(results: Results, graph: Graph) -> None:
    """Offer twice, three times and ten times the capacity, and see how it goes on afterwards."""
    offering = Offering(graph, results.scale.lengths, seed=1)
    seconds, _ = offering.normal_after(BESIDE)
    results.publish("", {"idle_wait_s": seconds})
    for times in TIMES:
        offer = Offer(FLOOD, times * results.capacity)
        trial = offering.run([offer], results.scale.flood_seconds)[0]
        seconds, witness = offering.normal_after(BESIDE)
        goodput = figures.goodput(trial) / results.figures.get("capacity_goodput", math.nan)
        found = {
            f"overload_slo_share_{times}x": trial.slo_share,
            f"overload_goodput_share_{times}x": goodput,
            # A client that is let in and then waits for its text has not found things normal.
            f"normal_after_{times}x_s": seconds if trial.load.slo.kept(witness) else math.inf,
        }
        results.publish(trial.invalid, found)
        _record(results, f"{times}x", trial, graph)


def speeds(results: Results, graph: Graph) -> None:
    """Offer three times the capacity while the graph is on both cores, on one, and on both."""
    phase = results.scale.phase_seconds
    offering = Offering(graph, results.scale.lengths, seed=2)

    async def change() -> None:
        await asyncio.sleep(phase)
        with graph.on_one_core():
            await asyncio.sleep(phase)
        await asyncio.sleep(phase)

    trial = offering.run([Offer(FLOOD, 3 * results.capacity)], 3 * phase, change)[0]
    # Who was let in before the machine became slower was let in rightly; the longest such session
    # ends `longest` seconds later.
    longest = min(results.scale.lengths[1], phase / 2)
    between = {
        "slower_at_once_slo_share": (phase, phase + longest),
        "slower_slo_share": (phase + longest, 2 * phase),
        "faster_slo_share": (2 * phase, 3 * phase),
    }
    found = {
        name: figures.share(figures.began_within(trial, *times), trial.load.slo)
        for name, times in between.items()
    }
    results.publish(trial.invalid, found)
    _record(results, "speeds", trial, graph)


def tenants(results: Results, graph: Graph) -> None:
    """One tenant floods: what do another one and one with a higher priority hear of it?"""
    seconds, offering = results.scale.tenants_seconds, Offering(graph, results.scale.lengths, 3)
    quiet = offering.run([Offer(BESIDE, _FEW)], seconds)[0]
    offers = [Offer(FLOOD, 3 * results.capacity), Offer(BESIDE, _FEW), Offer(FIRST, _FEW)]
    flood, beside, first = offering.run(offers, seconds)
    found = {
        "tenant_lag_ratio": _lag(beside) / _lag(quiet),
        "tenant_latency_ratio": _latency(beside) / _latency(quiet),
        "tenant_slo_share": beside.slo_share,
        "tenant_wait_p95_s": percentile(figures.waits(beside.offered), 0.95),
        "priority_wait_p95_s": percentile(figures.waits(first.offered), 0.95),
        "flood_wait_p95_s": percentile(figures.waits(flood.offered), 0.95),
    }
    results.publish(flood.invalid or beside.invalid or first.invalid, found)
    for name, trial in (("quiet", quiet), ("flood", flood), ("beside", beside), ("first", first)):
        _record(results, f"tenants_{name}", trial, graph)


def _lag(trial: Trial) -> float:
    return trial.figures()["partial_lag_p95_ms"]


def _latency(trial: Trial) -> float:
    return figures.latency_p95(_done(trial.records))


def _done(records: list[Record]) -> list[Record]:
    return [r for r in records if r.outcome == "done"]


def _record(results: Results, name: str, trial: Trial, graph: Graph) -> None:
    slo: Slo = trial.load.slo
    results.details[name] = trial.figures() | {
        "sessions_offered": trial.load.sessions,
        "goodput": figures.goodput(trial),
        "clients_refused": figures.refused_clients(trial.offered),
        "refusals_unclear": figures.unclear(trial.offered),
        "wait_p50_s": percentile(figures.waits(trial.offered), 0.5),
        "latency_p95_ms": 1000 * figures.latency_p95(_done(trial.records)),
        "slo_share_all": figures.share(trial.ended, slo),
        "admitted_at_end": graph.admitted(),
    }


PARTS: dict[str, Callable[[Results, Graph], None]] = {
    "floods": floods,
    "speeds": speeds,
    "tenants": tenants,
}
