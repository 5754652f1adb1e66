"""The margin over a forecast, which learns from misses. No I/O.

Adaptive conformal inference (Gibbs and Candès 2021) with the SLO's own loss: the margin is a
quantile of how far demand recently exceeded its forecasts. The share of errors that lie beyond it
is divided, after each step, by exp(`_STEP` × (share of the demand that found no worker - the share
allowed)). Whatever the arrivals are like, this share cannot leave its bounds, so after T steps the
mean loss differs from what is allowed by at most ln(`_MOST` / `_LEAST`) / (`_STEP` · T), as long as
the share is not held at a bound. A miss that the forecast caused and one that a slow start caused
count alike, and so does room that comes from rounding up to whole workers: both are what clients
see.

The logarithm of the share moves, not the share: under heavy-tailed bursts one error in a hundred
decides, and a step that finds this hundredth in a calm service within hours would jump over all of
it with every burst. The pool would be twice too large for hours, and then too small.

Step: with 0.3 that difference is at most 0.6 points after a day of 30 s steps and 0.1 after a week,
whereas one flash crowd (twice the usual demand, a third of it unserved for four minutes) moves the
share by a factor of five, from half of the errors to a tenth: a single event is no reason to pay
for the largest margin until the next.

Memory: six hours of ratios, so that the noise of the time of day counts and yesterday's does not.
With a day, simulated meetings cost 8% more GPU-hours, because what surprised on the first day is
foreseen on the second. The SLO counts sessions, so a step counts as its demand does against the
mean of the day.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

_STEP = 0.3
# Bounds of the share of errors beyond the margin: from the largest error to the usual one.
_LEAST, _MOST = 0.002, 0.5
_FIRST = 0.25
# A quantile of fewer ratios, about an hour's, says nothing: a ramp would be all there is.
_ENOUGH = 120
# One step counts at most as much as so many ordinary ones: it may be the first after weeks without
# sessions. Bursts at noon, where most is missed, are ordinary.
_MOST_WEIGHT = 10.0


@dataclass(frozen=True)
class Miss:
    """The shares of one step's demand that found no worker, and that may find none."""

    unserved: float
    allowed: float


class Margin:
    """The factor by which one pool's forecasts are multiplied.

    `memory_steps` is the number of forecasts whose errors are remembered, `day_steps` the steps of
    a day.
    """

    def __init__(self, memory_steps: int, day_steps: int) -> None:
        self._fading = 1.0 / day_steps
        self._beyond = _FIRST
        self._mean = 0.0
        self._seen = 0
        self._ratios: deque[float] = deque(maxlen=memory_steps)
        self._sorted: list[float] = []

    @property
    def level(self) -> float:
        """The quantile of recent errors that is the margin."""
        return 1.0 - self._beyond

    @property
    def factor(self) -> float:
        """The margin; at least 1, and never beyond the largest error that was observed."""
        if len(self._sorted) < _ENOUGH:
            return 1.0
        at = self.level * (len(self._sorted) - 1)
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

    def learn_miss(self, demand: float, miss: Miss) -> None:
        """Learn what of this step's demand found no worker."""
        self._seen += 1
        self._mean += max(self._fading, 1.0 / self._seen) * (demand - self._mean)
        weight = min(demand / max(self._mean, 1e-9), _MOST_WEIGHT)
        beyond = self._beyond * math.exp(-_STEP * weight * (miss.unserved - miss.allowed))
        self._beyond = min(max(beyond, _LEAST), _MOST)
