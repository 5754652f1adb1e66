"""Percentiles, intervals, paired ratios, and the order in which variants take turns. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.stats import bootstrap

_RESAMPLES = 5_000
_Name = TypeVar("_Name")


def percentile(values: Sequence[float], share: float, method: str = "linear") -> float:
    """Return a percentile (`share` from 0 to 1), interpolated by default; NaN without values."""
    if not len(values):
        return math.nan
    with np.errstate(invalid="ignore"):
        return float(np.percentile(values, 100 * share, method=method))  # type: ignore[call-overload]


def percentile_interval(values: Sequence[float], share: float) -> tuple[float, float] | None:
    """Return the 95% interval of a percentile, resampling values; None for fewer than two."""
    if len(values) < 2:
        return None
    dice = np.random.default_rng(0)
    chosen = dice.choice(np.asarray(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(np.percentile(chosen, 100 * share, axis=1), (2.5, 97.5))
    return float(low), float(high)


@dataclass(frozen=True)
class Ratio:
    """One figure of two variants: medians, and the median of now ÷ before over the pairs with its
    95% interval."""

    before: float
    now: float
    ratio: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, float]:
        """Return the ratio as `name`, and its interval as `name_low` and `name_high`."""
        return {name: self.ratio, f"{name}_low": self.low, f"{name}_high": self.high}


def ratio(before: Sequence[float], now: Sequence[float]) -> Ratio:
    """Compare measurements that were taken in pairs; at least one pair, none of them 0.

    The interval is a percentile bootstrap over pairs. With fewer than five pairs, which are too few
    to resample, it spans all of them.
    """
    quotients = np.asarray(now) / np.asarray(before)
    low, high = float(quotients.min()), float(quotients.max())
    if len(quotients) >= 5 and low < high:
        found = bootstrap(
            (quotients,), np.median, n_resamples=_RESAMPLES, method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
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


def in_turns(variants: Sequence[_Name], number: int) -> Sequence[_Name]:
    """Return the order of two variants in round `number`: forwards in odd rounds."""
    return variants if number % 2 else variants[::-1]
