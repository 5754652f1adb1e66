"""A clock that tests set."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass
class Clock:
    """Advances by `step` at each reading."""

    now: float = 100.0
    step: float = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@dataclass
class Ahead:
    """The real time, and the seconds that a test adds to it."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.seconds
