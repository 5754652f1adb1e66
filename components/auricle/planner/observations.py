"""What the planner sees of a pool and of the service, and what it decides. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PoolObservation:
    """One pool at one time.

    `replicas` are those that were asked for (running and starting, not draining), `ready`
    those that serve. `load` is the work done, in workers at the profile's capacity: 2.5 is
    what two and a half workers do at their knee. `response` is how long work waits before
    it begins (seconds, the largest of the workers' 95th percentiles).
    """

    at: float
    replicas: int
    ready: int
    load: float
    response: float

    @property
    def utilisation(self) -> float:
        """Of the workers that serve; 1 is the profile's knee."""
        return self.load / self.ready if self.ready else 0.0


@dataclass(frozen=True)
class ServiceObservation:
    """Sessions at one time: open, speaking, and turned away but coming again."""

    active: int
    speaking: int
    waiting: float = 0.0

    @property
    def unmet(self) -> float:
        """Load that cannot be seen, as a multiple of the load that can: 1 is none."""
        return 1.0 + self.waiting / max(self.active, 1)


Why = Literal["forecast", "overload", "ebb", "hold", "bounds", "budget"]


@dataclass(frozen=True)
class Decision:
    """How many replicas a pool should have, and why; `detail` is for the log."""

    pool: str
    was: int
    replicas: int
    why: Why
    detail: str

    @property
    def changes(self) -> bool:
        """Whether anything is to be done."""
        return self.replicas != self.was

    def line(self) -> str:
        """The decision and its reason in one line."""
        what = f"{self.was} → {self.replicas}" if self.changes else f"stays {self.was}"
        return f"{self.pool}: {what} ({self.why}: {self.detail})"
