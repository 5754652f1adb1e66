"""Levels of load, a pool's profile from them, and the progress of their measurement."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from scipy.optimize import nnls

from auricle.core.errors import AuricleError
from auricle.launcher.output import is_of_one_request
from auricle.load.reports import WorkerLoad

_HINT = "raise Processor.target_chunk_ms, or use a faster machine"


@dataclass(frozen=True)
class Level:
    """A measurement with `speakers` concurrent sessions, or that many seconds of speech a second.

    `work` is per second, by unit; `response_seconds` is the 95th percentile, infinite if all
    requests were refused; `refused` whether any was.
    """

    speakers: float
    work: Mapping[str, float]
    requests_per_second: float
    response_seconds: float
    refused: bool


class NoRequests(AuricleError):
    """A worker answered no request while it was measured."""


def level_of(speakers: float, reports: Sequence[WorkerLoad]) -> Level:
    """Aggregate one worker's reports. Raises NoRequests if they have none, and AuricleError without
    reports."""
    if not reports:
        raise AuricleError("the worker sent no load report while it was measured")
    seconds = sum(r.seconds for r in reports)
    units = {unit for r in reports for unit in r.work}
    requests = sum(r.requests_per_second * r.seconds for r in reports)
    slow = sum(r.response_seconds * r.requests_per_second * r.seconds for r in reports)
    refused = any(r.refused_per_second > 0 for r in reports)
    if not requests and not refused:
        raise NoRequests(
            f"a worker answered no request within {seconds:.0f} s, with {speakers:g} speakers: the "
            "machine is too slow for the model, or busy with other processes"
        )
    return Level(
        speakers=speakers,
        work={u: sum(r.work.get(u, 0.0) * r.seconds for r in reports) / seconds for u in units},
        requests_per_second=requests / seconds,
        response_seconds=slow / requests if requests else math.inf,
        refused=refused,
    )


def beyond(level: Level, limit: float) -> bool:
    """Return whether the level is beyond the knee: requests refused or response over `limit`."""
    return level.refused or level.response_seconds > limit


async def doubled(
    measure: Callable[[int], Awaitable[Level]],
    limit: float,
    *,
    most: int,
    load: str,
    growth: float = 0.0,
) -> list[Level]:
    """Measure levels, doubling the load from 1 until a level is beyond `limit`.

    With `growth` they also end where twice the load does not bring the worker that many times the
    requests, because other workers carry no more: then no level is beyond. Raises AuricleError if
    the levels reach `most`, which `load` completes, and NoRequests.
    """
    levels: list[Level] = []
    at_once = 1
    while not levels or not beyond(levels[-1], limit):
        if at_once > most:
            raise AuricleError(f"{most} {load}")
        try:
            level = await measure(at_once)
        except NoRequests:
            if levels and growth:
                break
            raise
        least = growth * levels[-1].requests_per_second if levels else 0.0
        if level.requests_per_second < least and not beyond(level, limit):
            break
        levels.append(level)
        at_once *= 2
    return levels


def knee(levels: Sequence[Level], limit: float, hint: str = _HINT) -> float:
    """Return the number of speakers at which the response time reaches `limit` (seconds).

    Interpolates linearly between two levels. If no level is beyond, it is the last one: the worker
    carries at least that number. Raises AuricleError if the first level is beyond the limit
    already, with a `hint` at the remedy.
    """
    if beyond(levels[0], limit):
        raise AuricleError(
            f"with nothing else to do the response takes {levels[0].response_seconds * 1000:.0f} "
            f"ms, but the limit is {limit * 1000:.0f} ms: {hint}"
        )
    for below, above in pairwise(levels):
        if beyond(above, limit):
            rise = above.response_seconds - below.response_seconds
            part = (limit - below.response_seconds) / rise if rise > 0 else 0.0
            # With refused requests the percentile means little, so the lower level is the knee.
            part = 0.0 if above.refused else min(max(part, 0.0), 1.0)
            return below.speakers + part * (above.speakers - below.speakers)
    return levels[-1].speakers


def costs(found: Sequence[tuple[Sequence[Level], float]], units: Sequence[str]) -> dict[str, float]:
    """Return the cost of each unit, in workers per unit of work per second.

    `found` has, for each kind of speech, its levels and its knee in speakers. The costs are a
    non-negative least-squares fit (Lawson and Hanson 1974) in which a level's load is its
    share of the knee, so the work at each knee costs 1. Units that were not counted, or have no
    share of their own in the fit, are absent. Raises AuricleError if none is left.
    """
    rows, shares = [], []
    for levels, at_knee in found:
        for level in levels:
            if level.speakers <= at_knee:
                rows.append([level.work.get(unit, 0.0) for unit in units])
                shares.append(level.speakers / at_knee)
    matrix = np.array(rows)
    # Units differ by orders of magnitude, so scale them for the solver.
    scale = np.maximum(matrix.max(axis=0), 1e-12)
    solved, _ = nnls(matrix / scale, np.array(shares))
    found_costs = {unit: float(v) for unit, v in zip(units, solved / scale, strict=True) if v > 0}
    if not found_costs:
        raise AuricleError(
            f"the costs of a worker cannot be computed: it counted no {' or '.join(units)} below "
            "its knee. Stop other processes, or measure on another machine"
        )
    return found_costs


def ratios(encode: Mapping[str, float], pd: Mapping[str, float]) -> dict[str, float]:
    """Return how many PD workers one encode worker feeds, from the streams that each carries."""
    return {segment: round(encode[segment] / pd[segment], 2) for segment in encode if pd[segment]}


# Progress: a line per level, and the remaining time

_FIRST_GUESS = 7  # levels up to a worker's knee: 1, 2, 4 … 32 speakers, and one between


class Progress:
    """The progress of `ramps` of levels. The number of levels is not known before, so the remaining
    time is estimated from the longest ramp so far. Pure."""

    def __init__(self, ramps: int, level_seconds: float) -> None:
        self._ramps_left = ramps
        self._level_seconds = level_seconds
        self._longest = 0
        self._level = 0
        self._done = 0

    def level_done(self) -> None:
        """One level was measured."""
        self._level += 1
        self._done += 1

    def ramp_done(self) -> None:
        """The knee of a worker was found."""
        self._longest = max(self._longest, self._level)
        self._ramps_left -= 1
        self._level = 0

    @property
    def seconds_left(self) -> float:
        """The remaining time: at least one level's, until the last ramp is done."""
        if not self._ramps_left:
            return 0.0
        levels = self._longest or _FIRST_GUESS
        current = max(1, levels - self._level)
        return (current + (self._ramps_left - 1) * levels) * self._level_seconds

    @property
    def share(self) -> float:
        """The share of the whole measurement that is done, 0 to 1."""
        done = self._done * self._level_seconds
        return done / (done + self.seconds_left) if done else 0.0

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return f"about {minutes} min {seconds:02d} s left"


@contextmanager
def bar(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Show a bar below the lines of the console while the block runs; without a terminal nothing.

    Yields the function that moves it.
    """
    columns = (BarColumn(bar_width=40), TextColumn("{task.description}"))
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("measuring", total=1.0)
        yield lambda to: bars.update(task, completed=to.share, description=str(to))


@contextmanager
def without_request_lines() -> Iterator[None]:
    """Remove the line that Dynamo writes for each request of this process from standard error.

    No setting of Dynamo 1.6 prevents it, and it does not pass through Python: the descriptor is
    replaced by a pipe, whose other lines are forwarded.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    forwarding = threading.Thread(target=_forward, args=(reading, kept), name="stderr", daemon=True)
    forwarding.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)  # this closes the pipe's last writer
        forwarding.join(5.0)
        os.close(kept)


def _forward(reading: int, kept: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not is_of_one_request(line.decode(errors="replace")):
                os.write(kept, line)
