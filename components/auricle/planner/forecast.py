"""Forecasts a pool's demand for the time when a worker started now would be ready.

Four of river's Holt-Winters forecasters run side by side: one has level and trend, one a level and
trend that follow within steps (for bursts), one a level that changes slowly (for demand that is
noisy rather than growing), one a daily season. Each is replayed over the last day with the
smallest margin that would have held the SLO; the one that would have cost the fewest workers is
used, with that margin.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from river.stats import RollingMax
from river.time_series import HoltWinters

# The margin over a forecast. No I/O.
#
# It has two parts. Noise of counts (independent sessions, Poisson) grows with the square root of
# the load, bursts grow with the load. The unit of noise is the median error of a forecaster, so
# that bursts do not change it; errors beyond `_MOST_DEVIATIONS` of it are bursts. A margin first
# covers noise, then bursts.
#
# Both are found in hindsight: the margin is the smallest with which the forecasts of the last day
# would have missed no more than a share of the demand. These forecasts were made for the time that
# a worker needs to start, so that a longer start has larger errors and a larger margin. A margin
# that grew with each miss, and shrank without, would swing between too small and too large from
# one burst to the next. As the demand missed is a convex function of the margin, that would cost
# more than a constant margin. A correction of the share remains, for effects outside the replay:
# scale-downs that wait, slow starts, and misses of two pools at the same time.
#
# Half a worker is added to all forecasts: the smallest step is a worker, and otherwise the first
# session after an idle hour would be a demand thousands of times its forecast.

Series = npt.NDArray[np.float64]
_HALF_WORKER = 0.5
# Demand that exceeds a whole number of workers by less than this is noise.
ROUNDING = 0.05
# The minimum time to learn from: a shorter one may consist of a single ramp.
_ENOUGH_SECONDS = 3600.0
# The forecaster and its margin are chosen at this interval.
_EVERY_SECONDS = 600.0
# The standard deviation of a normal distribution divided by its median absolute deviation.
_DEVIATION = 1.4826
_MOST_DEVIATIONS = 3.0
_HALVINGS = 12
# The correction is divided, after each step, by exp(`_STEP` × (share of the demand that found no
# worker - the share allowed)), within its bounds. One flash crowd (three times the usual demand,
# a third of it unserved for four minutes) changes it by a sixth.
_STEP = 0.02
_FACTOR_LEAST, _FACTOR_MOST = 0.5, 4.0
# The SLO counts sessions, so a step is weighted by its demand relative to the mean of the day, up
# to this weight: it may be the first after weeks without sessions.
_MOST_WEIGHT = 10.0


@dataclass(frozen=True)
class Miss:
    """The shares of one step's demand that found no worker, and that may find none."""

    unserved: float
    allowed: float


@dataclass(frozen=True)
class Margin:
    """The margin over a forecast, in two parts, and the replicas that the forecasts cost with it.

    `noise` is multiplied by the square root of the forecast, `burst` by the forecast, each in
    workers and after half a worker was added. `workers` is the mean number of workers paid for.
    """

    noise: float = 0.0
    burst: float = 0.0
    workers: float = math.inf

    def over(self, forecast: float) -> float:
        """Return the margin over this forecast, in workers."""
        size = forecast + _HALF_WORKER
        return self.noise * math.sqrt(size) + self.burst * size


class Hindsight:
    """Finds the smallest margin with which past forecasts would have met the demand.

    `memory_steps` is the number of forecasts that are remembered, `lead_steps` the steps that a
    worker is paid for before it is ready.
    """

    def __init__(self, memory_steps: int, lead_steps: int) -> None:
        self._forecasts = np.zeros(memory_steps)
        self._floors = np.zeros(memory_steps)
        self._demands = np.zeros(memory_steps)
        self._lead = lead_steps
        self._learnt = 0

    @property
    def count(self) -> int:
        """The number of forecasts that are remembered."""
        return min(self._learnt, len(self._demands))

    def learn(self, forecast: float, present: float, demand: float) -> None:
        """Learn a forecast, the demand when it was made, and the one that followed, in workers."""
        at = self._learnt % len(self._demands)
        self._forecasts[at], self._floors[at] = forecast, max(1, math.ceil(present - ROUNDING))
        self._demands[at] = demand
        self._learnt += 1

    def margin(self, missed: float, last: int) -> Margin:
        """Return the smallest margin that misses this share of the demand of the last steps.

        Workers are whole, and a pool always has enough for the demand present at the time of the
        forecast. Noise is covered up to `_MOST_DEVIATIONS` first, bursts by the second part.
        """
        order = np.arange(self._learnt - last, self._learnt) % len(self._demands)
        forecasts, floors, demands = (
            series[order] for series in (self._forecasts, self._floors, self._demands)
        )
        size = forecasts + _HALF_WORKER
        root = np.sqrt(size)
        errors = demands - forecasts
        most_noise = _MOST_DEVIATIONS * _DEVIATION * float(np.median(np.abs(errors) / root))
        # A pool has at least a worker, so that the first sessions after idle hours do not decide.
        allowed = missed * float(np.maximum(demands, 1.0).sum())

        def workers(noise: float, burst: float) -> Series:
            wanted = np.ceil(forecasts + noise * root + burst * size - ROUNDING)
            return np.asarray(np.maximum(wanted, floors))

        def enough(noise: float, burst: float) -> bool:
            return float(np.maximum(demands - workers(noise, burst), 0.0).sum()) <= allowed

        noise, burst = most_noise, 0.0
        if enough(noise, burst):
            noise = _smallest(lambda some: enough(some, 0.0), most_noise)
        else:
            burst = _smallest(lambda some: enough(most_noise, some), float((errors / size).max()))
        paid = workers(noise, burst)
        for _ in range(self._lead):
            paid[:-1] = np.maximum(paid[:-1], paid[1:])
        return Margin(noise, burst, float(paid.mean()))


def _smallest(enough: Callable[[float], bool], most: float) -> float:
    """Return the smallest number that is enough, if `most` is."""
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class Allowance:
    """The share of the demand that a margin may miss in hindsight, corrected by real misses.

    `day_steps` are the steps of a day.
    """

    def __init__(self, day_steps: int) -> None:
        self._fading = 1.0 / day_steps
        self._factor = 1.0
        self._mean = 0.0
        self._seen = 0
        self._allowed = 0.0

    @property
    def target(self) -> float:
        """The share to miss in hindsight, 0 before the first step."""
        return self._factor * self._allowed

    def learn(self, demand: float, miss: Miss) -> None:
        """Learn the share of this step's demand that found no worker."""
        self._seen += 1
        self._allowed += max(self._fading, 1.0 / self._seen) * (miss.allowed - self._allowed)
        self._mean += max(self._fading, 1.0 / self._seen) * (demand - self._mean)
        weight = min(demand / max(self._mean, 1e-9), _MOST_WEIGHT)
        factor = self._factor * math.exp(-_STEP * weight * (miss.unserved - miss.allowed))
        self._factor = min(max(factor, _FACTOR_LEAST), _FACTOR_MOST)


_DAY_SECONDS = 86_400
# The seasonal model is multiplicative, so a demand of zero would stay zero.
_LEAST = 1e-3  # workers
# A trend forecast is limited to doubling (or halving) the present demand.
_MOST_GROWTH = 2.0
# The trend is ignored for this number of steps after a pool was idle.
_IDLE_STEPS = 20
# The limit of forecasts, margin included, relative to the largest demand within the memory.
_MOST_OF_SEEN = 3.0


@dataclass(frozen=True)
class ForecastSettings:
    """Settings of one pool's forecast.

    `step_seconds` is the time between observations, `lead_steps` the steps until a worker
    started now is ready.
    """

    step_seconds: float
    lead_steps: int


@dataclass(frozen=True)
class _Promise:
    """A forecast for `lead_steps` ahead, and the demand when it was made."""

    demand: float
    now: float


class _Forecaster:
    """A model, the forecasts that it made, and their margin."""

    def __init__(self, model: HoltWinters, first: int, lead: int, day: int) -> None:
        self._model = model
        self._until_known = first
        self._lead = lead
        self._promised: deque[_Promise] = deque(maxlen=lead)
        self._ahead: list[float] = []
        self.hindsight = Hindsight(day, lead)
        self.margin = Margin()

    @property
    def known(self) -> bool:
        return self._until_known <= 0

    def learn(self, demand: float) -> None:
        if len(self._promised) == self._lead:
            promise = self._promised[0]
            self.hindsight.learn(promise.demand, promise.now, demand)
        self._model.learn_one(demand)
        self._ahead = []
        self._until_known -= 1

    def promise(self, demand: float, now: float) -> None:
        self._promised.append(_Promise(demand, now))

    def ahead(self, steps: int) -> list[float]:
        if len(self._ahead) < steps:
            self._ahead = self._model.forecast(max(steps, 2 * self._lead))
        return self._ahead[:steps]


class Forecast:
    """Forecasts one pool's demand in workers; `learn` must be called once per step."""

    def __init__(self, settings: ForecastSettings) -> None:
        self._lead = lead = settings.lead_steps
        day = round(_DAY_SECONDS / settings.step_seconds)
        self._enough = max(lead, round(_ENOUGH_SECONDS / settings.step_seconds))
        self._every = max(1, round(_EVERY_SECONDS / settings.step_seconds))
        self._trend = _Forecaster(HoltWinters(alpha=0.5, beta=0.15), 2, lead, day)
        steep = _Forecaster(HoltWinters(alpha=0.8, beta=0.6), 2, lead, day)
        slow = _Forecaster(HoltWinters(alpha=0.05), 2, lead, day)
        # The level follows today's difference within minutes; the season models the trend.
        daily = HoltWinters(alpha=0.2, beta=1e-4, gamma=0.4, seasonality=day, multiplicative=True)
        self._daily = _Forecaster(daily, day, lead, day)
        self._all = (self._daily, slow, self._trend, steep)
        self._chosen = self._trend
        self._steps = 0
        self._allowance = Allowance(day)
        self._largest = RollingMax(day)
        self._last = _LEAST
        self._recent: deque[float] = deque([_LEAST], maxlen=_IDLE_STEPS)

    def learn(self, demand: float, miss: Miss | None = None) -> None:
        """Learn the demand of this step, in workers, and its misses.

        `miss` is None if a larger margin would not have helped.
        """
        demand = max(demand, _LEAST)
        if miss is not None:
            self._allowance.learn(demand, miss)
        self._last = demand
        self._recent.append(demand)
        self._largest.update(demand)
        for forecaster in self._all:
            forecaster.learn(demand)
            if forecaster.known:
                ahead = forecaster.ahead(self._lead)[-1]
                forecaster.promise(self._bounded(ahead, forecaster), demand)
        self._steps += 1
        if self._steps % self._every == 0 and self._allowance.target > 0:
            self._choose(self._allowance.target)

    def _choose(self, missed: float) -> None:
        """Choose the forecaster that would have cost the fewest workers, and find its margin."""
        rated = [f for f in self._all if f.hindsight.count >= self._enough]
        if not rated:
            return
        # They are compared over the same steps.
        common = min(f.hindsight.count for f in rated)
        margins = [f.hindsight.margin(missed, common) for f in rated]
        self._chosen, margin = min(zip(rated, margins, strict=True), key=lambda one: one[1].workers)
        count = self._chosen.hindsight.count
        self._chosen.margin = (
            margin if count == common else self._chosen.hindsight.margin(missed, count)
        )

    @property
    def seasonal(self) -> bool:
        """Whether the seasonal forecaster is in use."""
        return self._chosen is self._daily

    @property
    def margin(self) -> Margin:
        """The margin over the forecasts in use."""
        return self._chosen.margin

    @property
    def tolerated(self) -> float:
        """The share of the demand that the margin may miss in hindsight."""
        return self._allowance.target

    def most(self, steps: int) -> float:
        """Return the highest demand forecast for the next `steps`, the present included."""
        if not self._trend.known:
            return self._last
        ahead = self._chosen.ahead(max(steps, 1))
        level = max(ahead[0], _LEAST)  # the present demand without its noise
        expected = max(self._bounded(max(ahead), self._chosen), min(self._last, level))
        with_margin = expected + self._chosen.margin.over(expected)
        # A season's precedent may be older than the memory.
        return min(with_margin, max(expected, _MOST_OF_SEEN * float(self._largest.get())))

    def _bounded(self, forecast: float, forecaster: _Forecaster) -> float:
        """Limit the growth of a trend forecast; a seasonal one has precedent and is not limited.

        Demand below one worker needs no forecast. After a pool was idle, its first sessions are a
        jump to a level, which a trend would continue.
        """
        if forecaster is self._daily:
            return max(forecast, _LEAST)
        idle = self._last < 1.0 or min(self._recent) < _HALF_WORKER
        most = self._last if idle else self._last * _MOST_GROWTH
        return min(max(forecast, self._last / _MOST_GROWTH), most)
