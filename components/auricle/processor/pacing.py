"""The cadence of running sessions under load. No I/O."""

from __future__ import annotations

from auricle.load.chunk_load import ChunkLoad

# (level of `ChunkLoad`, grid points between two decodes) from that level on.
_STRIDES = ((3.0, 4), (2.0, 3), (1.25, 2))


class Pacing:
    """Lengthens one session's cadence while chunks take too long.

    A session never has more than one decode in progress, so under load it skips grid points
    anyway; a longer cadence spreads them evenly.
    """

    def __init__(self, load: ChunkLoad) -> None:
        self._load = load
        self._refused = False

    @property
    def stride(self) -> int:
        """Grid points from one decode to the next, at least 1."""
        if self._refused:
            return _STRIDES[0][1]
        level = self._load.level
        return next((stride for from_level, stride in _STRIDES if level >= from_level), 1)

    def decoded(self) -> None:
        """Record that a decode was answered."""
        self._refused = False

    def refused(self) -> None:
        """Record that a decode was refused with Overloaded; this selects the longest cadence."""
        self._refused = True
