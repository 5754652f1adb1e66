"""The parts of the benchmark, each with its figures and details."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness import Part, Run, note
from benchmarks.load.capacity import CapacitySearch, Condition
from benchmarks.load.metrics import Slo
from benchmarks.load.record import Record
from benchmarks.load.subjects import Subject
from benchmarks.load.subjects import running as searched
from benchmarks.load.trial import Trial
from benchmarks.overload import figures
from benchmarks.overload.graph import FIRST, FLOOD, OTHER, Graph, graph_with_keys
from benchmarks.overload.offers import CHUNK_MS, Offer, Offering
from benchmarks.statistics import percentile

TIMES = (2, 3, 10)
# Concurrent sessions of each tenant that does not flood.
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


SCALES = {
    "full": Scale((10.0, 60.0), 150.0, 3, 0.1, 256, 600.0, 240.0, 240.0),
    "quick": Scale((10.0, 60.0), 110.0, 1, 0.2, 256, 150.0, 150.0, 120.0),
    "smoke": Scale((2.0, 3.0), 9.0, 1, 0.2, 1, 9.0, 9.0, 9.0),
}


def _capacity(run: Run) -> int:
    """Return the capacity that offers are multiples of: from this run or an earlier one."""
    return max(1, round(run.figures.get("capacity_sessions", _FIRST_GUESS)))


def capacity(run: Run) -> None:
    """Search the number of sessions that is carried without admission control."""
    scale = SCALES[run.size]
    condition = Condition(CHUNK_MS, scale.lengths, scale.trial_seconds, worst_wer=0.25)
    subject = Subject("ours", "demo")
    with searched(subject, run.folder, "--Processor.admission=fixed") as server:
        search = CapacitySearch(subject, server, condition, repeats=scale.repeats, log=note).run(
            min(_FIRST_GUESS, scale.most), most=scale.most, resolution=scale.resolution
        )
    run.details["capacity"] = search.plain()
    carried = search.points.get(search.capacity)
    goodput = statistics.median(map(figures.goodput, carried.trials)) if carried else 0.0
    run.publish({"capacity_sessions": search.capacity, "capacity_goodput": goodput})


def floods(run: Run, graph: Graph) -> None:
    """Offer twice, three times and ten times the capacity, and measure the time to recover."""
    offering = Offering(graph, SCALES[run.size].lengths, seed=1)
    seconds, _ = offering.normal_after(OTHER)
    run.publish({"idle_wait_s": seconds})
    for times in TIMES:
        offer = Offer(FLOOD, times * _capacity(run))
        trial = offering.run([offer], SCALES[run.size].flood_seconds)[0]
        seconds, witness = offering.normal_after(OTHER)
        goodput = figures.goodput(trial) / run.figures.get("capacity_goodput", math.nan)
        found = {
            f"overload_slo_share_{times}x": trial.slo_share,
            f"overload_goodput_share_{times}x": goodput,
            # A client that is admitted and then waits for its text does not count as normal.
            f"normal_after_{times}x_s": seconds if trial.load.slo.kept(witness) else math.inf,
        }
        run.publish(found, trial.invalid)
        _record(run, f"{times}x", trial, graph)


def speeds(run: Run, graph: Graph) -> None:
    """Offer three times the capacity while the graph is on both cores, on one, and on both."""
    phase = SCALES[run.size].phase_seconds
    offering = Offering(graph, SCALES[run.size].lengths, seed=2)

    async def change() -> None:
        await asyncio.sleep(phase)
        with graph.on_one_core():
            await asyncio.sleep(phase)
        await asyncio.sleep(phase)

    trial = offering.run([Offer(FLOOD, 3 * _capacity(run))], 3 * phase, change)[0]
    # Sessions that were admitted before the machine became slower were admitted correctly; the
    # longest of them ends `longest` seconds later.
    longest = min(SCALES[run.size].lengths[1], phase / 2)
    between = {
        "slower_at_once_slo_share": (phase, phase + longest),
        "slower_slo_share": (phase + longest, 2 * phase),
        "faster_slo_share": (2 * phase, 3 * phase),
    }
    found = {
        name: figures.share(figures.began_within(trial, *times), trial.load.slo)
        for name, times in between.items()
    }
    run.publish(found, trial.invalid)
    _record(run, "speeds", trial, graph)


def tenants(run: Run, graph: Graph) -> None:
    """Measure the effect of one tenant's flood on another one, and on one with higher priority."""
    scale = SCALES[run.size]
    seconds, offering = scale.tenants_seconds, Offering(graph, scale.lengths, seed=3)
    quiet = offering.run([Offer(OTHER, _FEW)], seconds)[0]
    offers = [Offer(FLOOD, 3 * _capacity(run)), Offer(OTHER, _FEW), Offer(FIRST, _FEW)]
    flood, other, first = offering.run(offers, seconds)
    found = {
        "tenant_lag_ratio": _lag(other) / _lag(quiet),
        "tenant_latency_ratio": _latency(other) / _latency(quiet),
        "tenant_slo_share": other.slo_share,
        "tenant_wait_p95_s": percentile(figures.waits(other.offered), 0.95),
        "priority_wait_p95_s": percentile(figures.waits(first.offered), 0.95),
        "flood_wait_p95_s": percentile(figures.waits(flood.offered), 0.95),
    }
    run.publish(found, flood.invalid or other.invalid or first.invalid)
    for name, trial in (("quiet", quiet), ("flood", flood), ("other", other), ("first", first)):
        _record(run, f"tenants_{name}", trial, graph)


def _lag(trial: Trial) -> float:
    return trial.figures()["partial_lag_p95_ms"]


def _latency(trial: Trial) -> float:
    return figures.latency_p95(_done(trial.records))


def _done(records: list[Record]) -> list[Record]:
    return [r for r in records if r.outcome == "done"]


def _record(run: Run, name: str, trial: Trial, graph: Graph) -> None:
    slo: Slo = trial.load.slo
    run.details[name] = trial.figures() | {
        "sessions_offered": trial.load.sessions,
        "goodput": figures.goodput(trial),
        "clients_refused": figures.refused_clients(trial.offered),
        "refusals_unclear": figures.unclear(trial.offered),
        "wait_p50_s": percentile(figures.waits(trial.offered), 0.5),
        "latency_p95_ms": 1000 * figures.latency_p95(_done(trial.records)),
        "slo_share_all": figures.share(trial.ended, slo),
        "admitted_at_end": graph.admitted(),
    }


def _on_graph(measure: Callable[[Run, Graph], None]) -> Part:
    """Return a part with a graph of its own."""

    def part(run: Run) -> None:
        with graph_with_keys() as graph:
            measure(run, graph)

    return part


PARTS: dict[str, Part] = {
    "capacity": capacity,
    "floods": _on_graph(floods),
    "speeds": _on_graph(speeds),
    "tenants": _on_graph(tenants),
}
