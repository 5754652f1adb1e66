"""The figures of the planner's table, each from simulated runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.planner.cluster import POOLS, Run, Score, run
from benchmarks.planner.kept import RIVALS, kept
from benchmarks.planner.ours import Ours
from benchmarks.planner.rivals import HPA_GRID, clairvoyant_hours, hpa_scores, peak_sizing
from benchmarks.planner.traces import STEP_SECONDS, Trace

SLO = 0.99
_REVERSAL_SECONDS = 120.0
_HOUR = round(3600 / STEP_SECONDS)
_LARGE = 20


@dataclass(frozen=True)
class Played:
    """One trace under all controllers."""

    trace: Trace
    gpus: float
    ours: Run
    bound_hours: float
    static_hours: float
    hpa: Mapping[tuple[float, float], Score]


def ours(
    trace: Trace,
    gpus: float,
    real_capacity: float | Callable[[int], float] = 1.0,
    slo: float | None = None,
) -> Run:
    """Run the trace under auricle's planner."""
    return run(trace, Ours(maximum=round(4 * gpus) + 4, slo=slo), real_capacity=real_capacity)


def wrong_mix(step: int) -> float:
    """Return a worker's capacity if the profile rates one unit of work too dear, another too cheap.

    As the mix of units changes over the day, capacity moves between 0.85 and 1.15.
    """
    return 1.0 + 0.15 * math.sin(2 * math.pi * step * STEP_SECONDS / 86_400)


def play(trace: Trace, gpus: float, name: str = "", folder: Path | None = None) -> Played:
    """Run the trace under the planner, all HPAs of the grid, static sizing and the bound.

    Earlier scores of the HPAs are read from `folder`, where they are stored by `name`.
    """
    hpa = kept(folder, f"{name}-hpa", RIVALS, lambda: hpa_scores(trace))
    static = peak_sizing(trace)
    hours = (len(trace.sessions) - trace.scored_from) * STEP_SECONDS / 3600
    return Played(
        trace=trace,
        gpus=gpus,
        ours=ours(trace, gpus),
        bound_hours=clairvoyant_hours(trace, SLO),
        static_hours=sum(static.replicas.values()) * hours,
        hpa=dict(zip(HPA_GRID, hpa, strict=True)),
    )


def best_hpa(played: Sequence[Played]) -> tuple[float, float]:
    """Return the HPA with the fewest GPU-hours that holds the SLO on all traces."""
    good = [how for how in HPA_GRID if all(p.hpa[how].slo >= min(SLO, p.ours.slo) for p in played)]
    # If none does, the one that comes closest.
    if not good:
        return max(HPA_GRID, key=lambda how: min(p.hpa[how].slo for p in played))
    return min(good, key=lambda how: sum(p.hpa[how].gpu_hours / p.bound_hours for p in played))


def reversals(found: Run) -> int:
    """Count orders that undo the previous one within two minutes.

    Growth beyond the size before the previous order undoes nothing.
    """
    return sum(
        (after[1] > 0) != (before[1] > 0)
        and after[0] - before[0] < _REVERSAL_SECONDS
        and not after[1] > -before[1] > 0
        for orders in found.orders.values()
        for before, after in pairwise(orders)
    )


def ratio_error(played: Played) -> float | None:
    """Mean error of encode ÷ PD against the best by search, in hours of 20 replicas and more.

    The best of an hour is the smallest pair of constant sizes that holds the SLO in it.
    None if no hour has as many replicas.
    """
    errors = []
    for begin in range(played.trace.scored_from, len(played.trace.sessions), _HOUR):
        hour = slice(begin, begin + _HOUR)
        encode, pd = (float(played.ours.replicas[pool][hour].mean()) for pool in POOLS)
        if encode + pd >= _LARGE:
            best = _searched(played.trace, hour)
            errors.append(abs(encode / pd / best - 1))
    return float(np.mean(errors)) if errors else None


def _searched(trace: Trace, hour: slice) -> float:
    """encode ÷ PD of the cheapest pair of sizes that serves 99% of the hour's speech."""
    encode, pd = trace.encode[hour], trace.pd[hour]
    weight = trace.speaking[hour]
    best: tuple[int, float, float] | None = None
    low, high = (int(0.8 * x.mean()) for x in (encode, pd))
    for e in range(max(1, low), int(encode.max()) + 2):
        for p in range(max(1, high), int(pd.max()) + 2):
            if best is not None and e + p > best[0]:
                break
            share = np.minimum(1, np.minimum(e / encode, p / pd))
            served = float(np.average(share, weights=weight))
            if served >= SLO and (best is None or (e + p, -served) < best[:2]):
                best = (e + p, -served, e / p)
    if best is None:
        raise AssertionError("the search covers the largest demand")
    return best[2]
