"""One pool's size from what was seen of it: fast up, slow down, never back and forth. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from auricle.planner.correction import Knee, corrected
from auricle.planner.forecast import Forecast
from auricle.planner.observations import Decision, PoolObservation, ServiceObservation, Why

# What is just over a whole worker by less than this is noise, not another worker.
_ROUNDING = 0.05


@dataclass(frozen=True)
class PoolPolicy:
    """How one pool is sized.

    Workers are to do `target` of what they can. `response_limit` is the wait at the profile's
    knee. A pool shrinks only when `ebb_seconds` long fewer workers would have done, and is
    never turned back within `settle_seconds`. `look_steps` ahead nothing may be missing for
    a worker to leave: it would take that long to have it back.
    """

    name: str
    minimum: int
    maximum: int
    target: float
    response_limit: float
    ebb_seconds: float
    settle_seconds: float
    lead_steps: int
    look_steps: int
    hysteresis: float = 0.02
    regain_seconds: float = 3600.0


@dataclass(frozen=True)
class Memory:
    """What a pool's next decision needs of the ones before."""

    knee: Knee = field(default_factory=Knee)
    raised_at: float = -math.inf
    lowered_at: float = -math.inf
    # Since when fewer would do, and the most that was needed since.
    ebbing_since: float | None = None
    ebb_most: int = 0


def demand_of(seen: PoolObservation, service: ServiceObservation) -> float:
    """What the pool is asked for, in workers at the profile's capacity."""
    return seen.load * service.unmet


def decide(
    policy: PoolPolicy,
    memory: Memory,
    seen: PoolObservation,
    service: ServiceObservation,
    forecast: Forecast,
) -> tuple[Decision, Memory]:
    """The pool's next size; `forecast` has learnt the present demand already."""
    knee = corrected(memory.knee, seen, policy.response_limit, policy.regain_seconds)
    memory = replace(memory, knee=knee)
    carried = policy.target * knee.share
    now = demand_of(seen, service)
    soon = forecast.most(policy.lead_steps)
    needed = _workers(max(soon, now), carried)
    detail = (
        f"demand {now:.2f}, in {policy.lead_steps} steps {soon:.2f}, a worker carries {carried:.2f}"
    )
    if needed > seen.replicas:
        overload = seen.response > policy.response_limit or service.unmet > 1.0
        return _raise(policy, memory, seen, needed, "overload" if overload else "forecast", detail)
    later = forecast.most(policy.look_steps)
    spare = _workers(max(later, now), carried * (1.0 - policy.hysteresis))
    return _lower(policy, memory, seen, spare, detail)


def _workers(demand: float, carried: float) -> int:
    return math.ceil(demand / carried - _ROUNDING)


def _raise(
    policy: PoolPolicy,
    memory: Memory,
    seen: PoolObservation,
    needed: int,
    why: Why,
    detail: str,
) -> tuple[Decision, Memory]:
    wanted = min(needed, policy.maximum)
    memory = replace(memory, ebbing_since=None)
    if wanted <= seen.replicas:
        held = f"{detail}; {policy.maximum} is the most allowed"
        return _hold(policy, seen, held, "bounds"), memory
    if seen.at - memory.lowered_at < policy.settle_seconds:
        return _hold(policy, seen, f"{detail}; lowered just before"), memory
    decision = Decision(policy.name, seen.replicas, wanted, why, detail)
    return decision, replace(memory, raised_at=seen.at)


def _lower(
    policy: PoolPolicy, memory: Memory, seen: PoolObservation, spare: int, detail: str
) -> tuple[Decision, Memory]:
    spare = max(spare, policy.minimum)
    if spare >= seen.replicas:
        if seen.replicas < policy.minimum:
            least = Decision(policy.name, seen.replicas, policy.minimum, "bounds", detail)
            return least, replace(memory, raised_at=seen.at, ebbing_since=None)
        return _hold(policy, seen, detail), replace(memory, ebbing_since=None)
    if memory.ebbing_since is None:
        memory = replace(memory, ebbing_since=seen.at, ebb_most=spare)
    memory = replace(memory, ebb_most=max(memory.ebb_most, spare))
    since = memory.ebbing_since if memory.ebbing_since is not None else seen.at
    rested = seen.at - memory.raised_at >= policy.settle_seconds
    if not rested or seen.at - since < policy.ebb_seconds:
        return _hold(policy, seen, f"{detail}; {memory.ebb_most} would do"), memory
    decision = Decision(policy.name, seen.replicas, memory.ebb_most, "ebb", detail)
    return decision, replace(memory, lowered_at=seen.at, ebbing_since=None)


def _hold(policy: PoolPolicy, seen: PoolObservation, detail: str, why: Why = "hold") -> Decision:
    return Decision(policy.name, seen.replicas, seen.replicas, why, detail)
