"""Divides a GPU budget between pools that together want more. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auricle.planner.decision import Decision


@dataclass(frozen=True)
class Share:
    """A pool's claim on the budget: at least `minimum` replicas, of `gpus` GPUs each."""

    decision: Decision
    minimum: int
    gpus: float = 1.0


def within_budget(shares: Sequence[Share], gpus: float) -> dict[str, Decision]:
    """Return the decisions by pool, reduced so that all replicas together fit into `gpus`.

    Every session needs all pools, so the pool with the smallest share of what it needs limits
    the sessions served; each GPU goes to that pool until it no longer fits there. The minimum
    replicas are kept even if they exceed the budget.
    """
    wanted = {s.decision.pool: s.decision.replicas for s in shares}
    if sum(s.gpus * wanted[s.decision.pool] for s in shares) <= gpus:
        return {s.decision.pool: s.decision for s in shares}
    given = {s.decision.pool: min(s.minimum, s.decision.replicas) for s in shares}
    left = gpus - sum(s.gpus * given[s.decision.pool] for s in shares)
    while (short := _shortest(shares, given, left)) is not None:
        given[short.decision.pool] += 1
        left -= short.gpus
    return {s.decision.pool: _cut(s.decision, given[s.decision.pool], gpus) for s in shares}


def _shortest(shares: Sequence[Share], given: Mapping[str, int], left: float) -> Share | None:
    """Return the pool with the smallest share of what it needs, if `left` suffices for it."""
    short = [s for s in shares if given[s.decision.pool] < s.decision.replicas]
    if not short:
        return None
    least = min(short, key=lambda s: given[s.decision.pool] / s.decision.replicas)
    # A GPU for the other pool would not serve more sessions, so it stays free.
    return least if least.gpus <= left else None


def _cut(decision: Decision, given: int, gpus: float) -> Decision:
    if given == decision.replicas:
        return decision
    detail = f"{decision.detail}; wanted {decision.replicas}, {gpus:g} GPUs for all pools"
    return replace(decision, replicas=given, why="budget", detail=detail)
