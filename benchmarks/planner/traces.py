"""Arrivals over days, and their demand on each pool. Seeded; nothing here is measured.

Sessions arrive at random (Poisson) at a rate that follows the trace's shape, and end at random;
speech within them is random too. Small services are therefore noisy, large ones smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]
STEP_SECONDS = 10.0
_DAY = 86_400.0
DAYS = 3  # the first is for learning and is not scored
SCORED_FROM = round(_DAY / STEP_SECONDS)

# Speaking sessions that one worker carries at its knee, for speech of the usual kind
# (segments of 6 s, English at 3 tokens a second). They are assumptions of the order of an H100's
# values; a deployment uses the values that `auricle profile` measures on its machine.
ENCODE_CARRIES, PD_CARRIES = 320.0, 96.0


@dataclass(frozen=True)
class Trace:
    """By step: open sessions, those speaking, and the workers of each pool they ask for."""

    name: str
    sessions: Series
    speaking: Series
    encode: Series
    pd: Series
    # Steps before this one are for learning.
    scored_from: int = SCORED_FROM

    def demand(self, pool: str) -> Series:
        """Return the demand on a pool, in workers."""
        return self.encode if pool == "encode" else self.pd


@dataclass(frozen=True)
class Shape:
    """A kind of service. `course(seconds, chance)` is the share of the peak's sessions.

    `speaks` is the share of open sessions that contain speech at a time. Segments of few seconds
    cost the encoder less (windows stay short) and the decoder more (more segments end).
    Tokens per second grow by `more_tokens` in the second half of the day (other languages).
    """

    course: Callable[[Series, np.random.Generator], Series]
    session_seconds: float
    speaks: float
    segment_seconds: float
    more_tokens: float = 0.0
    days: int = DAYS


def _hour(seconds: Series) -> Series:
    return np.asarray((seconds % _DAY) / 3600.0)


def _day_course(seconds: Series, low: float, high_from: float, high_to: float) -> Series:
    """Low at night, up over three hours, down over three hours."""
    hour = _hour(seconds)
    up = 1 / (1 + np.exp(-(hour - high_from) * 2.2))
    down = 1 / (1 + np.exp((hour - high_to) * 2.2))
    return np.asarray(low + (1 - low) * up * down)


def diurnal(seconds: Series, chance: np.random.Generator) -> Series:
    """People of one continent: nights at a fifth, a dip at noon."""
    dip = 0.12 * np.exp(-(((_hour(seconds) - 12.5) / 0.7) ** 2))
    return np.asarray(_day_course(seconds, 0.2, 8.0, 19.0) - dip)


def flash_crowd(seconds: Series, chance: np.random.Generator) -> Series:
    """A quiet service and, once a day at any time, thrice as many within two minutes."""
    course = 0.26 + 0.06 * np.sin((_hour(seconds) - 9) / 24 * 2 * np.pi)
    for day in range(DAYS):
        at = (day + chance.uniform(0.1, 0.85)) * _DAY
        since = seconds - at
        crowd = np.clip(since / 120, 0, 1) * np.clip(1 - (since - 2400) / 900, 0, 1)
        course = course + 0.65 * np.where(since > 0, crowd, 0)
    return np.asarray(course)


def meetings(seconds: Series, chance: np.random.Generator) -> Series:
    """Meetings at every full and half hour of the working day, most of them at the full."""
    course = np.full_like(seconds, 0.08)
    for day in range(DAYS):
        for half in range(16, 38):
            begins = day * _DAY + half * 1800
            weight = (0.55 if half % 2 == 0 else 0.3) * chance.normal(1, 0.05)
            length = 50 * 60 if half % 2 == 0 else 25 * 60
            into = np.clip((seconds - begins + 60) / 240, 0, 1)
            out = np.clip((begins + length + 120 - seconds) / 300, 0, 1)
            course = course + weight * into * out
    return np.asarray(course)


def office_hours(seconds: Series, chance: np.random.Generator) -> Series:
    """A call centre: opens at eight, closes at twenty."""
    return _day_course(seconds, 0.05, 8.5, 19.5)


SHAPES = {
    "diurnal": Shape(diurnal, 600, 0.55, 6.0, more_tokens=0.25),
    "flash": Shape(flash_crowd, 480, 0.6, 6.0),
    "meetings": Shape(meetings, 2400, 0.75, 10.0),
    "silence_heavy": Shape(office_hours, 300, 0.3, 2.5),
    "speech_heavy": Shape(diurnal, 1200, 0.9, 14.0, more_tokens=0.4),
}


def _costs(shape: Shape, seconds: Series) -> tuple[Series, Series]:
    """Return the cost of one speaking session in workers: (encode, PD)."""
    # Until a segment is 8 s long its window grows and is attended to again at every chunk.
    grown = min(shape.segment_seconds, 8.0) / 6.0
    encode = (0.6 + 0.4 * grown) / ENCODE_CARRIES
    # Each segment has one final, and the transcript so far is prefilled at every chunk.
    finals, prefix = 0.8 / shape.segment_seconds, 0.02 * shape.segment_seconds
    later = 1 / (1 + np.exp(-(_hour(seconds) - 13)))
    tokens = 1 + shape.more_tokens * later
    pd = (0.75 * tokens + finals + prefix) / PD_CARRIES
    return np.full_like(seconds, encode), np.asarray(pd)


def make(name: str, gpus: float, seed: int) -> Trace:
    """A trace whose expected peak takes about `gpus` GPUs in both pools together."""
    return shaped(name, SHAPES[name], gpus, np.random.default_rng(seed))


def shaped(name: str, shape: Shape, gpus: float, chance: np.random.Generator) -> Trace:
    """A trace of this shape."""
    seconds = np.arange(0, shape.days * _DAY, STEP_SECONDS)
    course = np.maximum(shape.course(seconds, chance), 0.01)
    encode, pd = _costs(shape, seconds)
    each = shape.speaks * (encode + pd)
    sessions = _population(course * gpus / np.max(course * each), shape.session_seconds, chance)
    return spoken(name, shape, sessions, chance)


def spoken(name: str, shape: Shape, sessions: Series, chance: np.random.Generator) -> Trace:
    """The demand of open sessions on the pools, with speech of this shape."""
    encode, pd = _costs(shape, np.arange(len(sessions)) * STEP_SECONDS)
    # Speech is slightly correlated across sessions (news, a topic of the day).
    drift = np.clip(_wander(len(sessions), chance), -0.15, 0.15)
    share = np.clip(shape.speaks * (1 + drift), 0, 1)
    speaking = chance.binomial(sessions.astype(np.int64), share).astype(np.float64)
    speaking = np.maximum(speaking, 1.0)
    scored_from = min(SCORED_FROM, len(sessions) // 2)
    return Trace(name, sessions, speaking, speaking * encode, speaking * pd, scored_from)


def _population(expected: Series, lasts: float, chance: np.random.Generator) -> Series:
    """Return random births and deaths with mean `expected`; sessions last `lasts` seconds."""
    change = np.gradient(expected)
    leaving = STEP_SECONDS / lasts
    net = change + expected * leaving
    births = np.maximum(net, 0)
    deaths = np.clip(leaving + np.maximum(-net, 0) / expected, 0, 1)
    open_now, found = int(expected[0]), np.empty_like(expected)
    for step in range(len(expected)):
        open_now += int(chance.poisson(births[step]))
        open_now -= int(chance.binomial(open_now, deaths[step]))
        found[step] = open_now
    return np.maximum(found, 1.0)


def _wander(steps: int, chance: np.random.Generator) -> Series:
    """A first-order autoregression that forgets over ten minutes, of 3% spread."""
    keep = np.exp(-STEP_SECONDS / 600)
    noise = chance.normal(0, 0.03 * np.sqrt(1 - keep**2), steps)
    found, value = np.empty(steps), 0.0
    for step in range(steps):
        value = keep * value + noise[step]
        found[step] = value
    return found
