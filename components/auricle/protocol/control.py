"""Messages of the planner, liveness probes, and errors."""

from __future__ import annotations

import msgspec


class AskDecisions(msgspec.Struct, frozen=True, tag=True):
    """Any process → planner; answered by `Decisions`."""


class PastDecision(msgspec.Struct, frozen=True):
    """A decision that differed from the pool's previous one, in size or reason.

    `at` is in Unix seconds. The pool had `was` replicas; the decision was `replicas`, because of
    `why`; `detail` has the numbers. It held for `steps` steps. `applied` if this planner was the
    leader and scaled the pool.
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

    `past` are the last decisions of all pools that differed from the previous one, oldest first.
    The planner decides every `step_seconds`.
    """

    lines: tuple[str, ...]
    leads: bool
    past: tuple[PastDecision, ...] = ()
    step_seconds: float = 0.0


class AskAlive(msgspec.Struct, frozen=True, tag=True):
    """Any process → any other; its event loop answers with `Alive`.

    `caller` is the random name of the asking process, which keeps its sessions open at a processor.
    """

    caller: str = ""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The process answers. `part` (a thread, vLLM's engine) has been silent for `silent_seconds`,
    longer than its other parts."""

    silent_seconds: float
    part: str


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """An error instead of a reply, from any component.

    `code` is an `AuricleError.code`, `keys` the windows or blocks it concerns, and
    `retry_after_seconds` when to retry.
    """

    code: str
    message: str
    keys: tuple[str, ...] = ()
    retry_after_seconds: float = 0.0
