"""The planner's last decisions, with their reasons, for those who ask later."""

from __future__ import annotations

from collections import deque

import msgspec

from auricle.messages.planning import PastDecision
from auricle.planner.decision import Decision

_KEPT = 100


class DecisionHistory:
    """Keeps the last 100 decisions that differed from their pool's one before. No clock."""

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
                if _told(last) == _told(made):
                    self._kept[place] = msgspec.structs.replace(last, steps=last.steps + 1)
                    return
                break
        self._kept.append(made)

    @property
    def past(self) -> tuple[PastDecision, ...]:
        """The decisions kept, oldest first."""
        return tuple(self._kept)


def _told(decision: PastDecision) -> tuple[object, ...]:
    return decision.was, decision.replicas, decision.why, decision.applied
