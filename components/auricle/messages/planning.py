"""What can be asked of a planner."""

from __future__ import annotations

import msgspec


class AskDecisions(msgspec.Struct, frozen=True, tag=True):
    """Anybody → planner."""


class Decisions(msgspec.Struct, frozen=True, tag=True):
    """Planner's reply: its last decision for each pool, in a line; whether it acts on them."""

    lines: tuple[str, ...]
    leads: bool
