"""From measured levels of load to a pool's profile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import nnls

from auricle.errors import AuricleError
from auricle.load_reports import WorkerLoad


@dataclass(frozen=True)
class Level:
    """`speakers` at a time gave this much work a second and this 95th percentile."""

    speakers: int
    work: Mapping[str, float]
    response_seconds: float
    refused: bool


def level_of(speakers: int, reports: Sequence[WorkerLoad]) -> Level:
    """Of one worker's reports over a while."""
    if not reports:
        raise AuricleError("the worker reported nothing while it was measured")
    seconds = sum(r.seconds for r in reports)
    units = {unit for r in reports for unit in r.work}
    requests = sum(r.requests_per_second * r.seconds for r in reports)
    slow = sum(r.response_seconds * r.requests_per_second * r.seconds for r in reports)
    return Level(
        speakers=speakers,
        work={u: sum(r.work.get(u, 0.0) * r.seconds for r in reports) / seconds for u in units},
        response_seconds=slow / requests if requests else 0.0,
        refused=any(r.refused_per_second > 0 for r in reports),
    )


def beyond(level: Level, limit: float) -> bool:
    """Whether this is more than the worker carries."""
    return level.refused or level.response_seconds > limit


def knee(levels: Sequence[Level], limit: float) -> float:
    """How many speakers take the response to its limit, between two levels on a line.

    Raises AuricleError if even the first is beyond, or none is.
    """
    if beyond(levels[0], limit):
        raise AuricleError(
            f"one speaker alone takes {levels[0].response_seconds * 1000:.0f} ms of "
            f"{limit * 1000:.0f} ms: raise Processor.target_chunk_ms, or take a faster machine"
        )
    for below, above in pairwise(levels):
        if beyond(above, limit):
            rise = above.response_seconds - below.response_seconds
            part = (limit - below.response_seconds) / rise if rise > 0 else 0.0
            # Where requests were refused the percentile says little: the lower one counts.
            part = 0.0 if above.refused else min(max(part, 0.0), 1.0)
            return below.speakers + part * (above.speakers - below.speakers)
    raise AuricleError(f"{levels[-1].speakers} speakers did not take a worker to its knee")


def costs(found: Sequence[tuple[Sequence[Level], float]], units: Sequence[str]) -> dict[str, float]:
    """Workers per unit of work a second, such that work at each knee sums up to 1.

    `found` are levels with their knee, for several kinds of speech: by non-negative least
    squares (Lawson and Hanson 1974), with the load of a level as its share of the knee.
    """
    rows, shares = [], []
    for levels, at_knee in found:
        for level in levels:
            if level.speakers <= at_knee:
                rows.append([level.work.get(unit, 0.0) for unit in units])
                shares.append(level.speakers / at_knee)
    matrix = np.array(rows)
    # Units differ by orders of magnitude; the solver likes them alike.
    scale = np.maximum(matrix.max(axis=0), 1e-12)
    solved, _ = nnls(matrix / scale, np.array(shares))
    return {unit: float(v) for unit, v in zip(units, solved / scale, strict=True)}
