"""The interface of every source of speech: it speaks a text in one of its voices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from models.training.espeak import Speech
from models.training.spans import Span


class Engine(Protocol):
    """A synthesiser, or recordings of people."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Return `text` in `voice`; `speed` is a factor of the voice's own speed.

        Raises ValueError for a voice that it does not have, and for words that it cannot say.
        """
        ...

    def words(self, voice: str) -> tuple[str, ...] | None:
        """Return the only words that the voice can say, or None for any."""
        ...


def speech(samples: npt.NDArray[np.int16], rate: int, text: str, ends: Sequence[float]) -> Speech:
    """Return speech whose words follow each other without a pause.

    Raises ValueError unless there is one end (s) per word, in increasing order.
    """
    if len(ends) != len(text.split()) or any(b <= a for a, b in pairwise(ends)):
        raise ValueError(f"{text!r} has {len(text.split())} words, whose ends are {list(ends)}")
    starts = [0.0, *ends[:-1]]
    return Speech(
        samples, rate, list(ends), [Span(a, b) for a, b in zip(starts, ends, strict=True)]
    )
