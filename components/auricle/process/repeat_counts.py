"""Counts lines that are logged again and again, kind by kind. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Kind = TypeVar("Kind")
PERIOD_SECONDS = 60.0
# Lines of one kind per period. Those that warn are rarer, and have tracebacks.
INFO_LINES, WARNING_LINES = 600, 20
# So much of a line says of which kind it is.
KIND_CHARACTERS = 200
OTHERS = "lines of other kinds"
_MOST_KINDS = 500


@dataclass
class _Count:
    shown: int = 0
    held_back: int = 0


class RepeatCounts(Generic[Kind]):
    """What was shown and held back in a period, which begins with its first line."""

    def __init__(self) -> None:
        self._counts: dict[Kind, _Count] = {}

    def __len__(self) -> int:
        """Return how many kinds there were since the last period ended."""
        return len(self._counts)

    def bounded(self, kind: Kind, others: Kind) -> Kind:
        """Return what a line of this kind counts as: `others` if it would be a kind too many."""
        return others if kind not in self._counts and len(self._counts) >= _MOST_KINDS else kind

    def shows(self, kind: Kind, most: int) -> bool:
        """Count a line; return whether it is among the first `most` of its kind."""
        count = self._counts.setdefault(kind, _Count())
        if count.shown < most:
            count.shown += 1
            return True
        count.held_back += 1
        return False

    def end(self) -> list[tuple[Kind, int]]:
        """End the period; return how many lines were held back, of the kinds that had any."""
        counts, self._counts = self._counts, {}
        return [(kind, count.held_back) for kind, count in counts.items() if count.held_back]
