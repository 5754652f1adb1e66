"""Messages to and from a planner."""

from __future__ import annotations

import msgspec


class AskDecisions(msgspec.Struct, frozen=True, tag=True):
    """Any process → planner; answered by `Decisions`."""


class PastDecision(msgspec.Struct, frozen=True):
    """A decision that differed from the pool's one before, in size or reason.

    `at` is in Unix seconds. The pool had `was` replicas and was to have `replicas`, because of
    `why`; `detail` has the numbers. It stayed so for `steps` steps. `applied` if this planner
    was the leader and scaled the pool.
    """

    at: float
    pool: str
    was: int
    replicas: int
    why: str
    detail: str
    steps: int
    applied: bool


class Decisions(msgspec.Struct, frozen=True, tag=True):
    """The planner's latest decision for each pool, a line each, and whether it is the leader.

    `past` are the last ones of all pools that differed from the one before, oldest first. The
    planner decides every `step_seconds`.
    """

    lines: tuple[str, ...]
    leads: bool
    past: tuple[PastDecision, ...] = ()
    step_seconds: float = 0.0
