"""Measures growth of memory and lag over a long, paced load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import theilslopes

from benchmarks.load.metrics import partial_lags
from benchmarks.load.record import Record
from benchmarks.statistics import percentile

_WARM_UP_SECONDS = 300.0


@dataclass(frozen=True)
class Drift:
    """`mb_per_min` of all processes after warm-up; lag of the last third ÷ of the first."""

    mb_per_min: float
    lag_growth: float


def drift(
    memory: Sequence[tuple[float, float]],
    records: Sequence[Record],
    warm_up: float = _WARM_UP_SECONDS,
) -> Drift:
    """`memory` is (seconds, MiB). The slope is the median of all pairs' (Theil-Sen): one
    garbage collection more or less does not show."""
    late = [(seconds, mib) for seconds, mib in memory if seconds >= warm_up]
    slope = theilslopes([m for _, m in late], [s / 60 for s, _ in late]).slope
    ordered = sorted((r for r in records if r.outcome == "done"), key=lambda r: r.ended)
    third = max(1, len(ordered) // 3)
    first, last = (
        percentile([lag for r in part for lag in partial_lags(r)], 0.95)
        for part in (ordered[:third], ordered[-third:])
    )
    return Drift(float(slope), float(np.divide(last, first)))
