"""A trace from a CSV file: (seconds or ISO time, sessions or arrivals), with any steps."""

from __future__ import annotations

import csv
import math
from datetime import datetime
from pathlib import Path

import numpy as np

from benchmarks.planner.traces import SCORED_FROM, SHAPES, STEP_SECONDS, Series, Trace, spoken

_COUNTS = ("sessions", "arrivals")
_LEAST_SECONDS = 3600.0
# Longer files are a mistake in the unit of time (milliseconds, say) rather than a trace.
_MOST_SECONDS = 366 * 86_400.0
_SHAPE = SHAPES["flash"]


class TraceError(ValueError):
    """The file is not a trace; the message names the wrong line and the correction."""


def read_trace(file: Path, gpus: float, seed: int = 0) -> Trace:
    """Read the file and scale it so that its peak takes about `gpus` GPUs.

    The first day is for learning; in a file of less than four days, the first quarter is.
    Raises TraceError.
    """
    what, seconds, counts = _rows(file)
    step = np.arange(0.0, seconds[-1], STEP_SECONDS)
    if what == "arrivals":
        sessions = _open(step, seconds, counts)
    else:
        sessions = np.interp(step, seconds, counts)
    if sessions.max() <= 0:
        raise TraceError(f"{file}: no {what} at any time; at least one count must be above 0")
    chance = np.random.default_rng(seed)
    one = spoken(file.stem, _SHAPE, np.full_like(sessions, 1e4), chance)
    scale = gpus * 1e4 / float(np.mean(one.encode + one.pd)) / float(sessions.max())
    trace = spoken(file.stem, _SHAPE, np.maximum(np.round(sessions * scale), 1.0), chance)
    return Trace(
        trace.name,
        trace.sessions,
        trace.speaking,
        trace.encode,
        trace.pd,
        scored_from=min(SCORED_FROM, len(step) // 4),
    )


def _rows(file: Path) -> tuple[str, Series, Series]:
    """Return the name of the counted column, seconds from the first row, and the counts."""
    try:
        lines = list(csv.reader(file.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: cannot be read as CSV: {error}") from error
    head = [name.strip().lower() for name in lines[0]] if lines else []
    if len(head) != 2 or head[1] not in _COUNTS:
        raise TraceError(
            f"{file}, line 1: two columns are needed, a time (seconds, or ISO 8601) and "
            f"'sessions' or 'arrivals'; found {', '.join(head) or 'nothing'}"
        )
    times, counts = [], []
    for number, row in enumerate(lines[1:], start=2):
        if not row:
            continue
        where = f"{file}, line {number}"
        if len(row) != 2:
            raise TraceError(f"{where}: {len(row)} columns; two are needed")
        times.append(_seconds(row[0].strip(), where))
        counts.append(_count(row[1].strip(), head[1], where))
        if len(times) > 1 and times[-1] <= times[-2]:
            raise TraceError(f"{where}: the time must be later than in the row before")
    lasts = times[-1] - times[0] if times else 0.0
    if not _LEAST_SECONDS <= lasts <= _MOST_SECONDS:
        raise TraceError(f"{file}: lasts {lasts:g} s; it must last between an hour and a year")
    return head[1], np.array(times) - times[0], np.array(counts)


def _seconds(text: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except ValueError:
            raise TraceError(
                f"{where}: {text!r} is not a time: write seconds or ISO 8601, as in "
                "2026-01-31T08:00:00"
            ) from None
    if not math.isfinite(seconds):
        raise TraceError(f"{where}: {text!r} is not a finite time")
    return seconds


def _count(text: str, what: str, where: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = math.nan
    if not (math.isfinite(count) and count >= 0):
        raise TraceError(f"{where}: {text!r} is not a number of {what} of at least 0")
    return count


def _open(step: Series, seconds: Series, arrivals: Series) -> Series:
    """Return the sessions open at each step: a row's arrivals come evenly until the next row."""
    total = np.concatenate([[0.0], np.cumsum(arrivals[:-1])])
    come = np.interp(step, seconds, total)
    gone = np.interp(step - _SHAPE.session_seconds, seconds, total)
    return np.asarray(come - gone)
