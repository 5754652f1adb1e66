"""The margin over a forecast, which learns from misses. No I/O.

Adaptive conformal inference (Gibbs and Candès 2021) with the SLO's own loss: the margin is a
quantile of how far demand recently exceeded its forecasts, and the quantile's level moves after
each step by `_STEP` × (share of the demand that found no worker - the share allowed). Whatever
the arrivals are like, the level cannot leave its bounds, so after T steps the mean loss differs
from what is allowed by at most (width of the bounds) / (`_STEP` · T), as long as the level is
not held at a bound. A miss that the forecast caused and one that a slow start caused count
alike, and so does room that comes from rounding up to whole workers: both are what clients see.

Step: with 0.015 that difference is at most 1.2 points after a day of 30 s steps and 0.2 after a
week, whereas one flash crowd (twice the usual demand, a third of it unserved for four minutes)
moves the level by 0.08: a single event is no reason to pay for the largest margin until the next.
Twice the step holds the SLO no better on simulated days and costs up to a fifth more GPU-hours
under heavy-tailed bursts; a fifth of it takes days to notice that a service is noisy.

Memory: six hours of ratios, so that the noise of the time of day counts and yesterday's does
not. The SLO counts sessions, so a step counts as its demand does against the mean of the day.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

_STEP = 0.015
# The largest error is the most that was observed.
_LEAST, _MOST = 0.5, 1.0
_FIRST = 0.75
# A quantile of fewer ratios, about an hour's, says nothing: a ramp would be all there is.
_ENOUGH = 120
# One step of a burst counts at most as much as so many ordinary ones.
_MOST_WEIGHT = 3.0


class Margin:
    """The factor by which one pool's forecasts are multiplied.

    `allowed` is the share of the demand that may find no worker, `memory_steps` the number of
    forecasts whose errors are remembered, `day_steps` the steps of a day.
    """

    def __init__(self, allowed: float, memory_steps: int, day_steps: int) -> None:
        self._allowed = allowed
        self._fading = 1.0 / day_steps
        self._level = _FIRST
        self._mean = 0.0
        self._seen = 0
        self._ratios: deque[float] = deque(maxlen=memory_steps)
        self._sorted: list[float] = []

    @property
    def level(self) -> float:
        """The quantile of recent errors that is the margin; 1: the largest of them."""
        return self._level

    @property
    def factor(self) -> float:
        """The margin; at least 1, and never beyond the largest error that was observed."""
        if len(self._sorted) < _ENOUGH:
            return 1.0
        at = self._level * (len(self._sorted) - 1)
        low = int(at)
        high = min(low + 1, len(self._sorted) - 1)
        between = self._sorted[low] + (at - low) * (self._sorted[high] - self._sorted[low])
        return max(1.0, between)

    def learn_ratio(self, ratio: float) -> None:
        """Learn one demand divided by its forecast."""
        if len(self._ratios) == self._ratios.maxlen:
            del self._sorted[bisect_left(self._sorted, self._ratios[0])]
        self._ratios.append(ratio)
        insort(self._sorted, ratio)

    def learn_miss(self, demand: float, unserved: float) -> None:
        """Learn the share of this step's demand that found no worker."""
        self._seen += 1
        self._mean += max(self._fading, 1.0 / self._seen) * (demand - self._mean)
        weight = min(demand / max(self._mean, 1e-9), _MOST_WEIGHT)
        level = self._level + _STEP * weight * (unserved - self._allowed)
        self._level = min(max(level, _LEAST), _MOST)
