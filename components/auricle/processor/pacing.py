"""The cadence of a session whose decodes are refused. No I/O."""

from __future__ import annotations

# Grid points from a refused decode to the next one: asking more often makes a full worker fuller.
_AFTER_REFUSAL = 4


class Pacing:
    """Lengthens a session's cadence while a worker has no room for its partial decodes.

    Load does no more than that: a session never has more than one decode in progress, so it skips
    grid points by itself while these take long, and none as soon as they do not.
    """

    def __init__(self) -> None:
        self._refused = False

    @property
    def stride(self) -> int:
        """Grid points from one decode to the next, at least 1."""
        return _AFTER_REFUSAL if self._refused else 1

    def decoded(self) -> None:
        """Record that a decode was answered."""
        self._refused = False

    def refused(self) -> None:
        """Record that a decode was refused with Overloaded."""
        self._refused = True
