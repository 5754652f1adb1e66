"""Two transcripts of the same audio, word by word. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import jiwer


@dataclass(frozen=True)
class Compared:
    """Words of the undisturbed transcript that are missing, words that are there besides, and
    words in whose place there is another one."""

    lost: int
    doubled: int
    changed: int

    @property
    def identical(self) -> bool:
        """Whether the transcripts are the same."""
        return not (self.lost or self.doubled or self.changed)


def compared(undisturbed: str, found: str) -> Compared:
    """Compare a transcript with the undisturbed one of the same audio."""
    if not undisturbed.split() or not found.split():
        return Compared(len(undisturbed.split()), len(found.split()), 0)
    words = jiwer.process_words(undisturbed, found)
    return Compared(words.deletions, words.insertions, words.substitutions)


def on_the_bus(heard: Iterable[str], published: Iterable[str]) -> tuple[int, int]:
    """Return how many final texts that clients heard are missing on the bus, and how many are
    there that no client heard, or once too often."""
    clients, bus = Counter(filter(None, heard)), Counter(filter(None, published))
    return (clients - bus).total(), (bus - clients).total()
