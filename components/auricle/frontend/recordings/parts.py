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


class Part(msgspec.Struct, frozen=True, tag=True):
    """16 kHz mono int16 (little-endian bytes) from sample `start` of the recording on."""

    start: int
    pcm: bytes


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
        part = Part(self._start, self._pcm[:samples].astype("<i2", copy=False).tobytes())
        self._start += samples
        self._pcm = self._pcm[samples:]
        return part
