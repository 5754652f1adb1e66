"""The planner on the local graph as delivered: from idle to some sessions at once, and back.

An ordered worker was not needed if, by the profile, the others could carry the demand that the
planner observed at its next step.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from auricle_testing.server import AS_DELIVERED, serving
from benchmarks.harness import Run
from benchmarks.load.metrics import Slo
from benchmarks.load.plan import Planner, SpeechStyle
from benchmarks.load.protocols import Target, protocol
from benchmarks.load.trial import Load, Trial, run_trial
from benchmarks.planner.local import PROFILE

SESSIONS = (10, 16)
_POOLS = ("encode_worker", "pd_worker")
# The planner's line for each step and pool; see docs/planner.md.
_LINE = re.compile(
    rf"({'|'.join(_POOLS)}): (?:stays (\d+)|(\d+) → (\d+)) "
    r"\(\w+: demand ([\d.]+), .*a worker carries ([\d.]+)"
)
# Demand that exceeds a whole number of workers by less than this is noise, as for the planner.
_ROUNDING = 0.05


@dataclass(frozen=True)
class Course:
    """Seconds between decisions, of the rest before and after each load, and of each load."""

    step: float
    rest: float
    load: float
    lengths: tuple[float, float]  # of sessions


_FULL = Course(30.0, 90.0, 150.0, (5.0, 20.0))
COURSES = {"full": _FULL, "quick": _FULL, "smoke": Course(2.0, 6.0, 14.0, (2.0, 3.0))}


@dataclass(frozen=True)
class Step:
    """One decision about one pool; `demand` is in workers of capacity 1, `carries` per worker."""

    pool: str
    was: int
    replicas: int
    demand: float
    carries: float


def from_idle(run: Run, course: Course) -> None:
    """Run 10 sessions from idle and back, then 16, under the planner with its default settings."""
    options = (
        "--Planner.replicas=1",
        f"--Planner.profile={PROFILE}",
        f"--Planner.step_seconds={course.step:g}",
        "--Planner.log_level=DEBUG",
    )
    with serving(*AS_DELIVERED, *options) as server:
        trials = asyncio.run(_loaded(server.url, course))
        steps = decided(server.log)
    if not steps:
        raise AssertionError("the planner decided nothing")
    records = [r for trial in trials for r in trial.records if r.outcome != "refused"]
    of_sessions = {
        "idle_slo_share": sum(Slo().kept(r) for r in records) / max(1, len(records)),
        "idle_sessions": float(len(records)),
    }
    run.publish(
        {
            "idle_workers_not_needed": float(not_needed(steps)),
            "idle_workers_most": float(max(step.replicas for step in steps)),
            "idle_demand_most": max(step.demand for step in steps),
        }
    )
    run.details["idle"] = [(s.pool, s.was, s.replicas, s.demand) for s in steps]
    run.publish(of_sessions, next((trial.invalid for trial in trials if trial.invalid), ""))


async def _loaded(url: str, course: Course) -> list[Trial]:
    target, session, trials = Target(url, "demo"), protocol("stream"), []
    for seed, sessions in enumerate(SESSIONS, start=31):
        await asyncio.sleep(course.rest)
        plans = Planner(SpeechStyle(course.lengths), seed)
        trials.append(await run_trial(Load(sessions, course.load), plans, session, target))
    await asyncio.sleep(course.rest)
    return trials


def decided(log: Iterable[str]) -> list[Step]:
    """Return the planner's decisions by its lines in the log, in their order."""
    steps = []
    for line in log:
        if found := _LINE.search(line):
            pool, same, was, replicas, demand, carries = found.groups()
            was, replicas = int(was or same), int(replicas or same)
            steps.append(Step(pool, was, replicas, float(demand), float(carries)))
    return steps


def not_needed(steps: Sequence[Step]) -> int:
    """Count ordered workers that the demand of the next step did not need."""
    count = 0
    for pool in _POOLS:
        # An order at the very end was for demand that never arrived.
        end = Step(pool, 0, 0, 0.0, 1.0)
        for ordered, after in pairwise([*(s for s in steps if s.pool == pool), end]):
            needed = math.ceil(after.demand / after.carries - _ROUNDING)
            count += max(0, ordered.replicas - max(ordered.was, needed))
    return count
