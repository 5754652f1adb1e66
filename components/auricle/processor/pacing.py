"""How often a session decodes when the PD workers are busy. Pure."""

from __future__ import annotations

# (share of a PD worker's request slots in use, grid points between two decodes) from there on.
_STRIDES = ((0.9, 4), (0.75, 3), (0.5, 2))


class Pacing:
    """Stretches a session's cadence before anything has to be refused.

    A session never has more than one decode under way, so load already makes it
    skip grid points; this spreads the skipping while there still is room.
    """

    def __init__(self) -> None:
        self._load = 0.0

    @property
    def stride(self) -> int:
        """Grid points from one decode to the next, at least 1."""
        return next((stride for load, stride in _STRIDES if self._load >= load), 1)

    def decoded(self, load: float) -> None:
        """A decode was answered by a worker with that share of its slots in use."""
        self._load = load

    def refused(self) -> None:
        """A decode found no slot."""
        self._load = 1.0
