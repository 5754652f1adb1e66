"""A recording's speech as parts that are transcribed apart from each other. Pure.

A part is what would be one segment of a live session: it ends where speech ends, once
it is long at the next pause, and at the quietest point near the cap at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from auricle.audio.pcm import Int16
from auricle.audio.segmentation import SegmentLimits
from auricle.frontend.endpointing import GateEvent, Piece

_SAMPLE_BYTES = 2


class Part(msgspec.Struct, frozen=True, tag=True):
    """Speech within samples [start, end) of the recording, 16 kHz mono int16 (little-endian
    bytes); shorter than that where silence between sentences was left out."""

    start: int
    end: int
    pcm: bytes


def joined(parts: Iterable[Part], longest: int) -> Iterator[Part]:
    """Neighbours as one part, as long as that has at most `longest` samples.

    A part costs a session and a decode of its own, however short it is. Each ends with the
    silence that ended its sentence, so what is joined sounds like speech with short pauses.
    """
    held: Part | None = None
    for part in parts:
        if held is not None and len(held.pcm) + len(part.pcm) <= longest * _SAMPLE_BYTES:
            held = Part(held.start, part.end, held.pcm + part.pcm)
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held


class PartCutter:
    """Pieces of speech in, whole parts out; holds at most one part."""

    def __init__(self, limits: SegmentLimits) -> None:
        self._limits = limits
        self._start = 0
        self._pcm = np.zeros(0, np.int16)

    def push(self, events: Iterable[GateEvent]) -> Iterator[Part]:
        """The parts that these events complete."""
        for event in events:
            if isinstance(event, Piece):
                yield from self._piece(event)

    def finish(self) -> Iterator[Part]:
        """The recording is over."""
        if len(self._pcm):
            yield self._cut(len(self._pcm))

    def _piece(self, piece: Piece) -> Iterator[Part]:
        if not len(self._pcm):
            self._start = piece.start
        self._pcm = np.concatenate([self._pcm, piece.pcm])
        # A mark at the cap itself still counts, as in a live segment.
        while len(self._pcm) > self._limits.maximum:
            yield self._cut(self._limits.forced_cut(self._samples))
        at_pause = piece.boundary == "pause" and len(self._pcm) >= self._limits.pause_after
        if len(self._pcm) and (piece.boundary == "endpoint" or at_pause):
            yield self._cut(len(self._pcm))

    def _samples(self, start: int, end: int) -> Int16:
        return self._pcm[start:end]

    def _cut(self, samples: int) -> Part:
        pcm = self._pcm[:samples].astype("<i2", copy=False).tobytes()
        part = Part(self._start, self._start + samples, pcm)
        self._start += samples
        self._pcm = self._pcm[samples:]
        return part
