"""Forecasts a pool's demand for the time when a worker started now would be ready.

Three of river's Holt-Winters forecasters run side by side: one has level and trend, one a level
that changes slowly (for demand that is noisy rather than growing), one a daily season; the one
with the smallest recent error is used. A margin is applied that learns from misses (margin.py).

Demand and forecasts are compared after half a worker was added to both: the smallest step is a
worker, and otherwise the first session after an idle hour would be a demand thousands of times its
forecast.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

from river.stats import EWMean, RollingMax
from river.time_series import HoltWinters

# The margin over a forecast, which learns from misses. No I/O.
#
# Adaptive conformal inference (Gibbs and Candès 2021) with the SLO's own loss: the margin is a
# quantile of how far demand recently exceeded its forecasts. The share of errors that lie beyond it
# is divided, after each step, by exp(`_STEP` × (share of the demand that found no worker - the
# share allowed)). This share stays within its bounds for any arrivals, so after T steps the mean
# loss differs from the allowed one by at most ln(`_MOST` / `_LEAST`) / (`_STEP` · T), as long as
# the share is not held at a bound. Misses of the forecast and misses of a slow start count alike,
# and so does capacity from rounding up to whole workers: clients see both.
#
# The logarithm of the share moves, not the share: under heavy-tailed bursts one error in a hundred
# decides, and a linear step that finds this hundredth in a calm service within hours would jump
# over all of it with every burst. The pool would be twice too large for hours, and then too small.
#
# Step: with 0.3 that difference is at most 0.6 points after a day of 30 s steps and 0.1 after a
# week, whereas one flash crowd (twice the usual demand, a third of it unserved for four minutes)
# moves the share by a factor of five, from half of the errors to a tenth: a single event does not
# justify the largest margin until the next one.
#
# Memory: six hours of ratios, so that the noise of the time of day counts and yesterday's does not.
# With a day, simulated meetings cost 8% more GPU-hours, because surprises of the first day are
# forecast on the second. The SLO counts sessions, so a step is weighted by its demand relative to
# the mean of the day.

_STEP = 0.3
# Bounds of the share of errors beyond the margin: from the largest error to the usual one.
_MARGIN_LEAST, _MOST = 0.002, 0.5
_FIRST = 0.25
# The minimum number of ratios, about an hour: a shorter time may consist of a single ramp.
_ENOUGH = 120
# The largest weight of one step: it may be the first after weeks without sessions. Bursts at noon,
# with most of the misses, have ordinary weights.
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
        """Learn the share of this step's demand that found no worker."""
        self._seen += 1
        self._mean += max(self._fading, 1.0 / self._seen) * (demand - self._mean)
        weight = min(demand / max(self._mean, 1e-9), _MOST_WEIGHT)
        beyond = self._beyond * math.exp(-_STEP * weight * (miss.unserved - miss.allowed))
        self._beyond = min(max(beyond, _MARGIN_LEAST), _MOST)


_DAY_SECONDS = 86_400
# The seasonal model is multiplicative, so a demand of zero would stay zero.
_LEAST = 1e-3  # workers
# Weight of the latest error in a forecaster's mean error: about an hour of 30 s steps.
_ERROR_FADING = 0.01
_HALF_WORKER = 0.5
# A trend forecast is limited to doubling (or halving) the present demand.
_MOST_GROWTH = 2.0
# The trend is ignored for this number of steps after a pool was idle.
_IDLE_STEPS = 20
# The limit of forecasts, margin included, relative to the largest demand within the memory.
_MOST_OF_SEEN = 3.0


def _ratio(demand: float, forecast: float) -> float:
    return (demand + _HALF_WORKER) / (forecast + _HALF_WORKER)


@dataclass(frozen=True)
class ForecastSettings:
    """Settings of one pool's forecast.

    `step_seconds` is the time between observations, `lead_steps` the steps until a worker
    started now is ready. The margin is learnt from the forecast errors of the last
    `memory_steps`.
    """

    step_seconds: float
    lead_steps: int
    memory_steps: int = 720


class _Rated:
    """A forecaster and the recent relative error of its forecasts `lead` steps ahead."""

    def __init__(self, model: HoltWinters, first: int, lead: int) -> None:
        self._model = model
        self._until_known = first
        self._lead = lead
        self._made: deque[float] = deque(maxlen=lead)
        self._error = EWMean(_ERROR_FADING)
        self.rated = 0

    @property
    def known(self) -> bool:
        return self._until_known <= 0

    @property
    def error(self) -> float:
        return float(self._error.get())

    def learn(self, demand: float) -> None:
        if len(self._made) == self._lead:
            self._error.update(abs(_ratio(demand, self._made[0]) - 1.0))
            self.rated += 1
        self._model.learn_one(demand)
        self._until_known -= 1
        if self.known:
            self._made.append(max(self.ahead(self._lead)[-1], _LEAST))

    def ahead(self, steps: int) -> list[float]:
        forecast: list[float] = self._model.forecast(steps)
        return forecast


@dataclass(frozen=True)
class _Promise:
    """A forecast for `lead_steps` ahead, and the demand when it was made."""

    demand: float
    now: float


class Forecast:
    """Forecasts one pool's demand in workers; `learn` must be called once per step."""

    def __init__(self, settings: ForecastSettings) -> None:
        self._settings = settings
        lead = settings.lead_steps
        day = round(_DAY_SECONDS / settings.step_seconds)
        self._trend = _Rated(HoltWinters(alpha=0.5, beta=0.15), 2, lead)
        # The level follows today's difference within minutes; the season models the trend.
        daily = HoltWinters(alpha=0.2, beta=1e-4, gamma=0.4, seasonality=day, multiplicative=True)
        self._daily = _Rated(daily, day, lead)
        self._slow = _Rated(HoltWinters(alpha=0.05), 2, lead)
        self._margin = Margin(settings.memory_steps, day)
        self._promised: deque[_Promise] = deque(maxlen=lead)
        self._largest = RollingMax(settings.memory_steps)
        self._last = _LEAST
        self._recent: deque[float] = deque([_LEAST], maxlen=_IDLE_STEPS)

    def learn(self, demand: float, miss: Miss | None = None) -> None:
        """Learn the demand of this step, in workers, and its misses.

        `miss` is None if a larger margin would not have helped.
        """
        demand = max(demand, _LEAST)
        if len(self._promised) == self._settings.lead_steps:
            self._margin.learn_ratio(self._exceeded(demand, self._promised[0]))
        if miss is not None:
            self._margin.learn_miss(demand, miss)
        self._last = demand
        self._recent.append(demand)
        self._largest.update(demand)
        for forecaster in (self._trend, self._slow, self._daily):
            forecaster.learn(demand)
        if self._trend.known:
            ahead = self._believed().ahead(self._settings.lead_steps)[-1]
            self._promised.append(_Promise(self._bounded(ahead), demand))

    @staticmethod
    def _exceeded(demand: float, promise: _Promise) -> float:
        """Return the margin with which the promise would have sufficed for the demand.

        A pool is always sized for the present demand, so demand that was there needs no margin.
        """
        ratio = _ratio(demand, promise.demand)
        return ratio if demand > promise.now else min(ratio, 1.0)

    @property
    def seasonal(self) -> bool:
        """Whether the seasonal forecaster is in use."""
        return self._believed() is self._daily

    @property
    def room(self) -> float:
        """The margin: the factor by which forecasts, and half a worker, are multiplied."""
        return self._margin.factor

    @property
    def margin_level(self) -> float:
        """The quantile of recent errors that the margin is."""
        return self._margin.level

    def most(self, steps: int) -> float:
        """Return the highest demand forecast for the next `steps`, the present included."""
        if not self._trend.known:
            return self._last
        ahead = self._believed().ahead(max(steps, 1))
        expected = max(self._bounded(max(ahead)), min(self._last, self._level()))
        with_margin = self.room * (expected + _HALF_WORKER) - _HALF_WORKER
        # A season's precedent may be older than the memory.
        return min(with_margin, max(expected, _MOST_OF_SEEN * float(self._largest.get())))

    def _level(self) -> float:
        """Return the present demand without its noise."""
        return max(self._believed().ahead(1)[0], _LEAST)

    def _believed(self) -> _Rated:
        rated = [f for f in (self._slow, self._daily) if f.rated >= self._settings.lead_steps]
        return min([self._trend, *rated], key=lambda forecaster: forecaster.error)

    def _bounded(self, forecast: float) -> float:
        """Limit the growth of a trend forecast; a seasonal one has precedent and is not limited.

        Demand below one worker needs no forecast. After a pool was idle, its first sessions are a
        jump to a level, which a trend would continue.
        """
        if self.seasonal:
            return forecast
        idle = self._last < 1.0 or min(self._recent) < _HALF_WORKER
        most = self._last if idle else self._last * _MOST_GROWTH
        return min(max(forecast, self._last / _MOST_GROWTH), most)
