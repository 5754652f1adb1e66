"""The interface of speaker models. No I/O.

A model's only knowledge of a session is the state that it returned for the previous segment. The
session keeps it, so any worker with the same model can continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

NO_SPEAKER_MODEL = (
    "this deployment has no speaker model: ask without speakers, or serve graphs.e_pd_diarize with "
    "Common.speaker_model"
)
# Limits of a session: voices, and bytes of state, which resume tokens carry.
MOST_SPEAKERS = 16
MOST_STATE_BYTES = 4096


@dataclass(frozen=True)
class SpeakerSegment:
    """A segment: 16 kHz mono samples, (n,) int16, and the state after the previous segment.

    The session has at most `most` speakers. `state` is empty in the first segment.
    """

    pcm: npt.NDArray[np.int16]
    state: bytes
    most: int


@dataclass(frozen=True)
class SpeakerSpan:
    """A speaker, counted from 1, speaks from sample `start` to sample `end` of the segment."""

    speaker: int
    start: int
    end: int


@dataclass(frozen=True)
class Diarized:
    """A segment's turns, in order and not overlapping, and the state after it."""

    turns: tuple[SpeakerSpan, ...]
    state: bytes


class SpeakerModel(Protocol):
    """Finds who speaks. Called from one thread."""

    def diarize(self, batch: Sequence[SpeakerSegment]) -> list[Diarized]:
        """Return the turns of each segment; the segments of a batch are of different sessions.

        The answer depends only on the segment and its state, which was checked.
        """

    def check(self, state: bytes) -> None:
        """Raise BadRequest unless `state` is empty or this model's; does not block."""

    def warm_up(self) -> None:
        """Run once on silence. Raises whatever the device raises."""
