"""Paired measurements of two servers. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import bootstrap

_RESAMPLES = 5_000


@dataclass(frozen=True)
class Ratio:
    """One figure of both servers: medians, and the median of new ÷ old over the pairs with its
    95% interval."""

    before: float
    now: float
    ratio: float
    low: float
    high: float


def ratio(before: Sequence[float], now: Sequence[float]) -> Ratio:
    """Compare measurements that were taken in pairs; at least one pair, none of them 0.

    The interval is a percentile bootstrap over pairs. It is as wide as all pairs if there are
    fewer than five: resampling so few says nothing.
    """
    quotients = np.asarray(now) / np.asarray(before)
    low, high = float(quotients.min()), float(quotients.max())
    if len(quotients) >= 5 and low < high:
        found = bootstrap(
            (quotients,),
            np.median,
            n_resamples=_RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        low, high = float(found.low), float(found.high)
    return Ratio(
        float(np.median(before)), float(np.median(now)), float(np.median(quotients)), low, high
    )


def ratios(
    before: Sequence[Mapping[str, float]], now: Sequence[Mapping[str, float]]
) -> dict[str, Ratio]:
    """Compare all figures that every measurement of both has."""
    names = [n for n in before[0] if all(n in row for row in (*before, *now))]
    return {n: ratio([row[n] for row in before], [row[n] for row in now]) for n in names}
