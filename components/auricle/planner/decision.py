"""The planner's decision for a pool, and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
