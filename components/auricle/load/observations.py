"""The planner's observations of a pool and of the service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolObservation:
    """One pool at time `at` (monotonic seconds).

    `replicas` is the number that the pool is scaled to (running and starting, not draining),
    `ready` the number that report and are not draining. `load` is the work done, in workers at
    the profile's knee. `response` is the response time in seconds: the mean of the workers'
    95th percentiles, or infinity if the pool refuses requests. A pool beside the path that nobody
    has `asked` for lately is to be empty; its `load` is what was asked of it.
    """

    at: float
    replicas: int
    ready: int
    load: float
    response: float
    asked: bool = True

    @property
    def utilisation(self) -> float:
        """Load per ready worker; 1 is the profile's knee."""
        return self.load / self.ready if self.ready else 0.0


@dataclass(frozen=True)
class ServiceObservation:
    """Sessions of all processors: open, with speech, and refused but expected to retry."""

    active: int
    speaking: int
    waiting: float = 0.0

    @property
    def unmet(self) -> float:
        """Total demand divided by observed load, counting refused clients; 1 if there are none."""
        return 1.0 + self.waiting / max(self.active, 1)
