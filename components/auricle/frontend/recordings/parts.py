"""Splits a recording's speech into parts that are transcribed independently. No I/O.

A part corresponds to one segment of a live session. It ends where speech ends; if it is long,
at the next pause; and at the quietest point near the maximum length at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from auricle.audio.pcm import Int16
from auricle.audio.segmentation import SegmentLimits
from auricle.frontend.listening.endpointing import GateEvent, Piece

_SAMPLE_BYTES = 2


class Part(msgspec.Struct, frozen=True, tag=True):
    """Speech within samples [start, end) of the recording.

    `pcm` is 16 kHz mono int16, little-endian. It has fewer than `end - start` samples if
    silence between joined parts was left out.
    """

    start: int
    end: int
    pcm: bytes


class Decoded(msgspec.Struct, frozen=True, tag=True):
    """Further `samples` (16 kHz) of the recording were decoded, silence included."""

    samples: int


def joined(parts: Iterable[Part | Decoded], longest: int) -> Iterator[Part | Decoded]:
    """Join adjacent parts as long as the result has at most `longest` samples.

    Every part costs a session and a decode, however short it is. A part ends with the first
    silence after its speech, so joined parts sound like speech with short pauses. Not every
    checkpoint takes that well: at such a pause a small one may invent words, which it does not
    if it hears the two sentences one by one. `Decoded` is passed on at once.
    """
    held: list[Part] = []
    held_bytes = 0
    for part in parts:
        if isinstance(part, Decoded):
            yield part
            continue
        if held and held_bytes + len(part.pcm) > longest * _SAMPLE_BYTES:
            yield _one(held)
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += len(part.pcm)
    if held:
        yield _one(held)


def _one(parts: Sequence[Part]) -> Part:
    return Part(parts[0].start, parts[-1].end, b"".join(part.pcm for part in parts))


class PartCutter:
    """Cuts pieces of speech into parts; buffers at most one part and one piece.

    Pieces are joined once, when a part is cut, however many there are.
    """

    def __init__(self, limits: SegmentLimits) -> None:
        self._limits = limits
        self._start = 0
        self._pieces: list[Int16] = []
        self._length = 0  # samples of all pieces

    def push(self, events: Iterable[GateEvent]) -> Iterator[Part]:
        """Yield the parts that these events complete."""
        for event in events:
            if isinstance(event, Piece):
                yield from self._piece(event)

    def finish(self) -> Iterator[Part]:
        """End the recording; yield the last part, if any."""
        if self._length:
            yield self._cut(self._length)

    def _piece(self, piece: Piece) -> Iterator[Part]:
        if not self._length:
            self._start = piece.start
        self._pieces.append(piece.pcm)
        self._length += len(piece.pcm)
        # A boundary exactly at the maximum length still counts, as in a live segment.
        while self._length > self._limits.maximum:
            yield self._cut(self._limits.forced_cut(self._samples))
        at_pause = piece.boundary == "pause" and self._length >= self._limits.pause_after
        if self._length and (piece.boundary == "endpoint" or at_pause):
            yield self._cut(self._length)

    def _samples(self, start: int, end: int) -> Int16:
        return self._joined()[start:end]

    def _joined(self) -> Int16:
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def _cut(self, samples: int) -> Part:
        audio = self._joined()
        pcm = audio[:samples].astype("<i2", copy=False).tobytes()
        part = Part(self._start, self._start + samples, pcm)
        self._start += samples
        self._length -= samples
        self._pieces = [audio[samples:]] if self._length else []
        return part
