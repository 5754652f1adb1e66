"""Messages to and from a planner."""

from __future__ import annotations

import msgspec


class AskDecisions(msgspec.Struct, frozen=True, tag=True):
    """Any process → planner; answered by `Decisions`."""


class Decisions(msgspec.Struct, frozen=True, tag=True):
    """The planner's latest decision for each pool, a line each, and whether it is the leader."""

    lines: tuple[str, ...]
    leads: bool
