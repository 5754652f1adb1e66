"""Shapes of arrivals that are hard to predict: noise, bursts, and days unlike the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.planner.traces import (
    DAYS,
    SHAPES,
    STEP_SECONDS,
    Series,
    Shape,
    Trace,
    diurnal,
    shaped,
)

_DAY = 86_400.0
_NOISE_FORGETS_SECONDS = 120.0
_BURSTS_A_DAY = 12
_SOURCES = 40
_REGIME_SECONDS = 5 * 3600.0
_NIGHT_SECONDS = 7 * 3600.0
_COUNT_SECONDS = 300.0
_SPIKES_A_DAY = 10
_WEEK_DAYS = 6
_RAMP_SECONDS = 2700.0


def noisy(spread: float, seconds: Series, chance: np.random.Generator) -> Series:
    """A diurnal day, multiplied by noise of this spread that forgets within minutes."""
    keep = np.exp(-STEP_SECONDS / _NOISE_FORGETS_SECONDS)
    steps = chance.normal(0.0, np.sqrt(1 - keep**2), len(seconds))
    noise, value = np.empty(len(seconds)), 0.0
    for step, change in enumerate(steps):
        value = keep * value + change
        noise[step] = value
    sigma = np.sqrt(np.log(1 + spread**2))
    return np.asarray(diurnal(seconds, chance) * np.exp(sigma * noise - sigma**2 / 2))


def pareto_bursts(seconds: Series, chance: np.random.Generator) -> Series:
    """A dozen bursts a day at any time, whose heights and lengths are heavy-tailed."""
    course = np.full_like(seconds, 0.25)
    for at in chance.uniform(0, seconds[-1], round(_BURSTS_A_DAY * seconds[-1] / _DAY)):
        height = min(0.08 * (1 + chance.pareto(1.3)), 0.75)
        length = min(180 * (1 + chance.pareto(1.2)), 7200.0)
        since = seconds - at
        course += height * np.clip(since / 60, 0, 1) * np.clip(1 - (since - length) / 120, 0, 1)
    return np.minimum(course, 1.0)


def self_similar(seconds: Series, chance: np.random.Generator) -> Series:
    """Sources that are on and off for heavy-tailed times: bursts at every scale of time."""
    course = np.zeros_like(seconds)
    for _ in range(_SOURCES):
        at, on = -chance.uniform(0, 1800), chance.random() < 0.4
        while at < seconds[-1]:
            lasts = min(180 * (1 + chance.pareto(1.4)), 6 * 3600.0)
            if on:
                begin, end = (int(max(x, 0) / STEP_SECONDS) for x in (at, at + lasts))
                course[begin:end] += 1.0 / _SOURCES
            at, on = at + lasts * (1.0 if on else 1.5), not on
    return course


def regimes(seconds: Series, chance: np.random.Generator) -> Series:
    """A level that changes to any other within minutes, several times a day, and then stays."""
    course, at, level = np.empty_like(seconds), 0.0, 0.4
    while at < seconds[-1]:
        until = at + chance.exponential(_REGIME_SECONDS)
        following = chance.uniform(0.15, 1.0)
        inside = seconds >= at
        course[inside] = level + (following - level) * np.clip((seconds[inside] - at) / 180, 0, 1)
        at, level = until, following
    return course


def missing_nights(seconds: Series, chance: np.random.Generator) -> Series:
    """A diurnal service that lacks some nights, and with them the morning's rise."""
    course = diurnal(seconds, chance)
    for day in range(1, round(seconds[-1] / _DAY) + 1):
        if chance.random() < 0.5:
            begins = day * _DAY + chance.uniform(-2, 1) * 3600
            lasts = _NIGHT_SECONDS + chance.uniform(0, 4) * 3600
            course = np.where((seconds >= begins) & (seconds < begins + lasts), 0.02, course)
    return np.asarray(course)


def counts(seconds: Series, chance: np.random.Generator) -> Series:
    """Counts of five minutes each, as of posts about a topic: a weak day, noise, and spikes.

    A spike rises from one count to the next, to a height that is heavy-tailed, and halves with
    each later count.
    """
    times = np.arange(0, seconds[-1] + 2 * _COUNT_SECONDS, _COUNT_SECONDS)
    found = (1 + 0.4 * np.sin((times / _DAY - 0.4) * 2 * np.pi)) * chance.lognormal(
        0.0, 0.3, len(times)
    )
    for at in chance.uniform(0, times[-1], round(_SPIKES_A_DAY * times[-1] / _DAY)):
        since = (times - at) / _COUNT_SECONDS
        height = min(1 + chance.pareto(1.2), 12.0)
        found += np.where(since >= 0, height * 0.5 ** np.maximum(since, 0), 0)
    return np.interp(seconds, times, found)


def weekly(seconds: Series, chance: np.random.Generator) -> Series:
    """A diurnal service with two quiet days a week, which yesterday does not announce."""
    quiet = np.isin(seconds // _DAY % 7, (3, 4))
    return np.asarray(diurnal(seconds, chance) * np.where(quiet, 0.35, 1.0))


def ramps(seconds: Series, chance: np.random.Generator) -> Series:
    """Straight lines between levels, three quarters of an hour long on average."""
    times, levels = [0.0], [0.5]
    while times[-1] < seconds[-1]:
        times.append(times[-1] + 600 + chance.exponential(_RAMP_SECONDS))
        levels.append(chance.uniform(0.15, 1.0))
    return np.interp(seconds, times, levels)


def _usual(course: Callable[[Series, np.random.Generator], Series], days: int = DAYS) -> Shape:
    """The shape whose sessions are short, so that their number follows the course."""
    return Shape(course, session_seconds=180, speaks=0.6, segment_seconds=6.0, days=days)


BURSTS = {
    "noise_20": _usual(partial(noisy, 0.2)),
    "noise_40": _usual(partial(noisy, 0.4)),
    "noise_60": _usual(partial(noisy, 0.6)),
    "pareto": _usual(pareto_bursts),
    "self_similar": _usual(self_similar),
    "regimes": _usual(regimes),
    "missing_nights": _usual(missing_nights),
    "counts": _usual(counts),
    "weekly": _usual(weekly, _WEEK_DAYS),
    "ramps": _usual(ramps),
}


def any_trace(name: str, gpus: float, seed: int, days: int | None = None) -> Trace:
    """A trace of any shape, calm or bursty, of its own length or of these days."""
    shape = {**SHAPES, **BURSTS}[name]
    if days is not None:
        shape = replace(shape, days=days)
    return shaped(name, shape, gpus, np.random.default_rng(seed))
