"""What a pool's demand will be when a worker that is asked for now has started.

Two of river's Holt-Winters forecasters run side by side: one follows level and trend, the
other also knows what this time of day was like; the one that erred less lately is believed.
How far forecasts were exceeded lately (a rolling quantile) is added: a noisy load gets more
room than a steady one, and nobody has to say how much.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from river.stats import EWMean, RollingQuantile
from river.time_series import HoltWinters

_DAY_SECONDS = 86_400
# Forecasters multiply; a demand of nothing would stay nothing.
_LEAST = 1e-3
# Of the error of a forecaster, to be compared with the other's: about an hour of 30 s steps.
_ERROR_FADING = 0.01
# No trend is believed beyond doubling (or halving) within the lead.
_MOST_GROWTH = 2.0


@dataclass(frozen=True)
class ForecastSettings:
    """`step_seconds` between observations, `lead_steps` until a worker asked for now serves.

    `quantile` of past excesses is added to forecasts; `memory_steps` are looked at.
    """

    step_seconds: float
    lead_steps: int
    quantile: float = 0.65
    memory_steps: int = 720


class _Rated:
    """A forecaster and its recent relative error at the lead."""

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
            self._error.update(abs(demand / self._made[0] - 1.0))
            self.rated += 1
        self._model.learn_one(demand)
        self._until_known -= 1
        if self.known:
            self._made.append(max(self.ahead(self._lead)[-1], _LEAST))

    def ahead(self, steps: int) -> list[float]:
        forecast: list[float] = self._model.forecast(steps)
        return forecast


class Forecast:
    """Of one pool's demand, in workers; fed once per step."""

    def __init__(self, settings: ForecastSettings) -> None:
        self._settings = settings
        lead = settings.lead_steps
        day = round(_DAY_SECONDS / settings.step_seconds)
        self._trend = _Rated(HoltWinters(alpha=0.5, beta=0.15), 2, lead)
        # Level follows within minutes how today differs; its trend is left to the season.
        daily = HoltWinters(alpha=0.2, beta=1e-4, gamma=0.4, seasonality=day, multiplicative=True)
        self._daily = _Rated(daily, day, lead)
        self._excess = RollingQuantile(settings.quantile, settings.memory_steps)
        self._promised: deque[float] = deque(maxlen=lead)
        self._last = _LEAST

    def learn(self, demand: float) -> None:
        """The demand of this step."""
        demand = max(demand, _LEAST)
        if len(self._promised) == self._settings.lead_steps:
            self._excess.update(demand / self._promised[0])
        self._last = demand
        self._trend.learn(demand)
        self._daily.learn(demand)
        if self._trend.known:
            ahead = self._believed().ahead(self._settings.lead_steps)[-1]
            self._promised.append(self._bounded(ahead))

    @property
    def seasonal(self) -> bool:
        """Whether the time of day is what is believed now."""
        return self._believed() is self._daily

    @property
    def room(self) -> float:
        """By what forecasts are multiplied so that they are seldom exceeded; at least 1."""
        return max(1.0, float(self._excess.get() or 1.0))

    def most(self, steps: int) -> float:
        """The most that is to be expected within so many steps, the present included."""
        if not self._trend.known:
            return self._last
        ahead = self._believed().ahead(max(steps, 1))
        return self.room * max(self._bounded(max(ahead)), min(self._last, self._level()))

    def _level(self) -> float:
        """The present without its noise."""
        return max(self._believed().ahead(1)[0], _LEAST)

    def _believed(self) -> _Rated:
        daily = self._daily
        known = daily.known and daily.rated >= self._settings.lead_steps
        return daily if known and daily.error < self._trend.error else self._trend

    def _bounded(self, forecast: float) -> float:
        """A line cannot be drawn far; what was so yesterday may well be so today."""
        if self.seasonal:
            return forecast
        return min(max(forecast, self._last / _MOST_GROWTH), self._last * _MOST_GROWTH)
