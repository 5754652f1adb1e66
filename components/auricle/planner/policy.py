"""Decides one pool's size: scales up at once, down slowly, and never flaps. No I/O."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.forecast import ROUNDING, Forecast
from auricle.protocol.control import PastDecision

# Corrects the profile's capacity by what workers are observed to carry. No I/O.
#
# A profile may have been measured on another machine or with other speech. If responses are too
# slow although the profile predicts spare capacity, the load at that moment is taken as the
# workers' capacity: the knee is lowered. If workers near the knee respond fast, the knee is raised
# again, but slowly: its place is only known once it has been exceeded.

_LEAST, _MOST = 0.4, 1.25  # bounds of the correction
# The knee is set to this share of the load at which responses became slow: it lies below.
_BELOW = 0.97
# Slow observations in a row, with the same number of ready workers, before the knee is
# lowered: neither one stall of a machine nor workers that have just started show capacity.
_CONFIRMED = 3
# A load this near to the known knee is as likely noise, so more observations are required.
_NEAR, _CONFIRMED_NEAR = 0.93, 10
_REGAINED = 0.01  # by which the knee is raised at a time
# Fast responses show spare capacity only at a utilisation above this share of the knee.
_TRIED = 0.95
# Responses count as fast below this share of the limit, which is reached at the knee.
_EASY = 0.5


@dataclass(frozen=True)
class Knee:
    """`share` is the observed capacity of a worker, as a share of the profile's.

    The other fields count the slow observations in a row, or note since when responses are
    fast.
    """

    share: float = 1.0
    late: int = 0
    late_ready: int = 0
    late_most: float = 0.0
    easy_since: float | None = None


def corrected(
    knee: Knee, seen: PoolObservation, response_limit: float, regain_seconds: float
) -> Knee:
    """Return the knee after one more observation.

    `response_limit` is the response time at the profile's knee, in seconds; the knee is raised
    at most once in `regain_seconds`.
    """
    if seen.ready == 0:
        return knee
    if seen.response > response_limit:
        return _late(knee, seen)
    knee = replace(knee, late=0)
    busy = seen.utilisation > _TRIED * knee.share
    if not busy or seen.response > _EASY * response_limit:
        return replace(knee, easy_since=None)
    if knee.easy_since is None:
        return replace(knee, easy_since=seen.at)
    if seen.at - knee.easy_since < regain_seconds:
        return knee
    return Knee(share=min(knee.share + _REGAINED, _MOST), easy_since=seen.at)


def _late(knee: Knee, seen: PoolObservation) -> Knee:
    if seen.ready != knee.late_ready or knee.late == 0:
        return Knee(knee.share, 1, seen.ready, seen.utilisation)
    most, late = max(knee.late_most, seen.utilisation), knee.late + 1
    share = knee.share
    enough = _CONFIRMED if most < _NEAR * share else _CONFIRMED_NEAR
    if late >= enough and most < _BELOW * share:
        # The throughput of overloaded workers is their capacity.
        share = max(_BELOW * most, _LEAST)
    return Knee(share, late, seen.ready, most)


# The planner's decision for a pool, and its reason.

Why = Literal["forecast", "overload", "ebb", "hold", "bounds", "budget", "asked"]


@dataclass(frozen=True)
class Decision:
    """The replicas a pool had (`was`) and should have, and why; `detail` is for the log."""

    pool: str
    was: int
    replicas: int
    why: Why
    detail: str

    @property
    def changes(self) -> bool:
        """Whether the pool must be scaled."""
        return self.replicas != self.was

    def line(self) -> str:
        """Return the decision and its reason as one line for the log."""
        what = f"{self.was} → {self.replicas}" if self.changes else f"stays {self.was}"
        return f"{self.pool}: {what} ({self.why}: {self.detail})"


@dataclass(frozen=True)
class PoolPolicy:
    """How one pool is sized.

    Workers are loaded to `target` of their capacity. `response_limit` is the response time at
    the profile's knee, in seconds. A pool is scaled down only if fewer workers would have
    sufficed for `ebb_seconds`, and no decision is undone within `settle_seconds`. It is sized
    for the demand `lead_steps` ahead; for a scale-down, the forecast `scale_down_steps` ahead must
    not need the workers either, because starting them again would take that long. With a
    `minimum` of 0 it is empty without demand, and has a worker as soon as there is demand.
    """

    name: str
    minimum: int
    maximum: int
    target: float
    response_limit: float
    ebb_seconds: float
    settle_seconds: float
    lead_steps: int
    scale_down_steps: int
    hysteresis: float = 0.02
    regain_seconds: float = 3600.0


@dataclass(frozen=True)
class Memory:
    """The state that one pool's decision passes to the next; times are monotonic seconds."""

    knee: Knee = field(default_factory=Knee)
    raised_at: float = -math.inf
    lowered_at: float = -math.inf
    lowered_from: int = 0  # the replicas before that
    # Since when fewer workers would suffice, and the most that were needed since.
    surplus_since: float | None = None
    surplus_replicas: int = 0


def demand_of(seen: PoolObservation, service: ServiceObservation) -> float:
    """Return the demand on the pool, in workers at the profile's knee."""
    return seen.load * service.unmet


def unserved_of(memory: Memory, seen: PoolObservation, service: ServiceObservation) -> float:
    """Return the share of the demand that found no worker; negative if there is room for more."""
    demand = demand_of(seen, service)
    room = seen.ready * memory.knee.share
    if demand <= 0:
        return -math.inf
    # Load is a mean over some time, so room may be left although clients were refused. A pool with
    # room for the refused clients, too, is not the cause of their refusal.
    refused = 1.0 - 1.0 / service.unmet
    return max(refused, 1.0 - room / demand) if room < demand else 1.0 - room / demand


def learnt(policy: PoolPolicy, memory: Memory, seen: PoolObservation) -> Memory:
    """Return the memory, updated with the observed capacity of a worker."""
    knee = corrected(memory.knee, seen, policy.response_limit, policy.regain_seconds)
    return replace(memory, knee=knee)


def decide(
    policy: PoolPolicy,
    memory: Memory,
    seen: PoolObservation,
    service: ServiceObservation,
    forecast: Forecast,
) -> tuple[Decision, Memory]:
    """Decide the pool's next size. `forecast` must have learnt the present demand already."""
    carried = policy.target * memory.knee.share
    now = demand_of(seen, service)
    soon = forecast.most(policy.lead_steps)
    needed = _workers(max(soon, now), carried) if seen.in_demand else 0
    detail = (
        f"demand {now:.2f}, in {policy.lead_steps} steps {soon:.2f}, a worker carries {carried:.2f}"
    )
    if not seen.in_demand:
        detail = f"no demand; {detail}"
    elif seen.replicas == 0 == policy.minimum:
        return _begin(policy, memory, seen, needed, detail)
    if seen.replicas > policy.maximum:
        # Another controller scaled the pool beyond its maximum, so `ebb_seconds` does not apply.
        most = f"{detail}; {policy.maximum} is the most allowed"
        decision = Decision(policy.name, seen.replicas, policy.maximum, "bounds", most)
        return decision, _lowered(memory, seen)
    if needed > seen.replicas:
        overload = seen.response > policy.response_limit or service.unmet > 1.0
        return _raise(policy, memory, seen, needed, "overload" if overload else "forecast", detail)
    later = forecast.most(policy.scale_down_steps)
    spare = _workers(max(later, now), carried * (1.0 - policy.hysteresis)) if seen.in_demand else 0
    return _lower(policy, memory, seen, spare, detail)


def _workers(demand: float, carried: float) -> int:
    return math.ceil(demand / carried - ROUNDING)


def _begin(
    policy: PoolPolicy, memory: Memory, seen: PoolObservation, needed: int, detail: str
) -> tuple[Decision, Memory]:
    """Start an empty pool at once, even if it was emptied just before: clients wait."""
    first = min(max(needed, 1), policy.maximum)
    decision = Decision(policy.name, 0, first, "asked", detail)
    return decision, replace(memory, raised_at=seen.at, surplus_since=None)


def _raise(
    policy: PoolPolicy,
    memory: Memory,
    seen: PoolObservation,
    needed: int,
    why: Why,
    detail: str,
) -> tuple[Decision, Memory]:
    wanted = min(needed, policy.maximum)
    memory = replace(memory, surplus_since=None)
    lowered = seen.at - memory.lowered_at < policy.settle_seconds
    if lowered and wanted <= memory.lowered_from:
        return _hold(policy, seen, f"{detail}; lowered just before"), memory
    if wanted <= seen.replicas:
        held = f"{detail}; {policy.maximum} is the most allowed"
        return _hold(policy, seen, held, "bounds"), memory
    decision = Decision(policy.name, seen.replicas, wanted, why, detail)
    return decision, replace(memory, raised_at=seen.at)


def _lower(
    policy: PoolPolicy, memory: Memory, seen: PoolObservation, spare: int, detail: str
) -> tuple[Decision, Memory]:
    spare = max(spare, policy.minimum, int(seen.in_demand))
    if spare >= seen.replicas:
        if seen.replicas < policy.minimum:
            least = Decision(policy.name, seen.replicas, policy.minimum, "bounds", detail)
            return least, replace(memory, raised_at=seen.at, surplus_since=None)
        return _hold(policy, seen, detail), replace(memory, surplus_since=None)
    if memory.surplus_since is None:
        memory = replace(memory, surplus_since=seen.at, surplus_replicas=spare)
    memory = replace(memory, surplus_replicas=max(memory.surplus_replicas, spare))
    since = memory.surplus_since if memory.surplus_since is not None else seen.at
    rested = seen.at - memory.raised_at >= policy.settle_seconds
    if not rested or seen.at - since < policy.ebb_seconds:
        return _hold(policy, seen, f"{detail}; {memory.surplus_replicas} would do"), memory
    decision = Decision(policy.name, seen.replicas, memory.surplus_replicas, "ebb", detail)
    return decision, _lowered(memory, seen)


def _lowered(memory: Memory, seen: PoolObservation) -> Memory:
    return replace(memory, lowered_at=seen.at, lowered_from=seen.replicas, surplus_since=None)


def _hold(policy: PoolPolicy, seen: PoolObservation, detail: str, why: Why = "hold") -> Decision:
    return Decision(policy.name, seen.replicas, seen.replicas, why, detail)


_KEPT = 100


class DecisionHistory:
    """Keeps the last 100 decisions that differ from their pool's previous one. No clock."""

    def __init__(self) -> None:
        self._kept: deque[PastDecision] = deque(maxlen=_KEPT)

    def add(self, at: float, decision: Decision, *, applied: bool) -> None:
        """Add a pool's next decision, made at `at` (Unix seconds)."""
        made = PastDecision(
            at=at,
            pool=decision.pool,
            was=decision.was,
            replicas=decision.replicas,
            why=decision.why,
            detail=decision.detail,
            steps=1,
            applied=applied,
        )
        for place in range(len(self._kept) - 1, -1, -1):
            last = self._kept[place]
            if last.pool == made.pool:
                if _outcome(last) == _outcome(made):
                    self._kept[place] = msgspec.structs.replace(last, steps=last.steps + 1)
                    return
                break
        self._kept.append(made)

    @property
    def past(self) -> tuple[PastDecision, ...]:
        """The decisions kept, oldest first."""
        return tuple(self._kept)


def _outcome(decision: PastDecision) -> tuple[object, ...]:
    return decision.was, decision.replicas, decision.why, decision.applied
