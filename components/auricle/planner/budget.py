"""GPUs shared between pools when there are too few for both. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auricle.planner.observations import Decision


@dataclass(frozen=True)
class Share:
    """What a pool asks of the budget: `gpus` for each replica, at least `minimum` of them."""

    decision: Decision
    minimum: int
    gpus: float = 1.0


def within_budget(shares: Sequence[Share], gpus: float) -> dict[str, Decision]:
    """The decisions, cut so that all replicas together fit into so many GPUs.

    A session needs every pool, so the share of sessions served is that of the pool with the
    smallest part of what it needs: the next GPU goes there, where alone it is of any benefit.
    What no pool could use is left.
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
    """The pool with the smallest part of what it needs, if it can have more."""
    short = [s for s in shares if given[s.decision.pool] < s.decision.replicas]
    if not short:
        return None
    least = min(short, key=lambda s: given[s.decision.pool] / s.decision.replicas)
    # A GPU for the other pool would serve nobody: it stays free.
    return least if least.gpus <= left else None


def _cut(decision: Decision, given: int, gpus: float) -> Decision:
    if given == decision.replicas:
        return decision
    detail = f"{decision.detail}; wanted {decision.replicas}, {gpus:g} GPUs for all pools"
    return replace(decision, replicas=given, why="budget", detail=detail)
