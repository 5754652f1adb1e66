"""What a diarize worker asks of a speaker model. No I/O.

All that a model knows of a session is the state that it returned for the segment before. It is
kept with the session, so any worker with the same model can go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

NO_SPEAKER_MODEL = (
    "this deployment has no speaker model, so nobody knows who speaks: ask without that, or have "
    "graphs.e_pd_diarize served, with Common.speaker_model"
)
# The most voices that one session can have, and the bytes of its state: resume tokens carry it.
MOST_SPEAKERS = 16
MOST_STATE_BYTES = 4096


@dataclass(frozen=True)
class SpeakerSegment:
    """A segment: 16 kHz mono samples, (n,) int16, and the state after the segment before it.

    `most` speakers are told apart in the session. `state` is empty in the first segment.
    """

    pcm: npt.NDArray[np.int16]
    state: bytes
    most: int


@dataclass(frozen=True)
class SpeakerSpan:
    """A speaker, counted from 1, speaks from `start` to `end`, samples of the segment."""

    speaker: int
    start: int
    end: int


@dataclass(frozen=True)
class Diarized:
    """Who spoke in a segment: turns in order, none overlapping, and the state after it."""

    turns: tuple[SpeakerSpan, ...]
    state: bytes


class SpeakerModel(Protocol):
    """Tells who speaks. Called from one thread."""

    def diarize(self, batch: Sequence[SpeakerSegment]) -> list[Diarized]:
        """Return who speaks in each segment; segments of one batch are of different sessions.

        The answer depends on the segment and its state only, which was checked.
        """

    def check(self, state: bytes) -> None:
        """Raise BadRequest unless `state` is one of this model's, or empty; at once."""

    def warm_up(self) -> None:
        """Run once on silence. Raises whatever the device raises."""
