"""Cuts a recording's speech into parts, as a live session into segments. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from auricle.audio.pcm import Int16
from auricle.audio.segmentation import Mark, SegmentLimits, after_cut
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent


class RecordingPart(msgspec.Struct, frozen=True, tag="Part"):
    """Speech within samples [start, end) of the recording.

    `pcm` is 16 kHz mono int16, little-endian. `speech` is the highest probability, 0 to 1, that a
    frame of it is speech.
    """

    start: int
    end: int
    pcm: bytes
    speech: float = 1.0


class DecodedSamples(msgspec.Struct, frozen=True, tag="Decoded"):
    """Further `samples` (16 kHz) of the recording were decoded, silence included."""

    samples: int


class PartCutter:
    """Cuts pieces of speech into parts; buffers at most one part and one piece.

    Pieces are joined once, when a part is cut, whatever their number.
    """

    def __init__(self, limits: SegmentLimits) -> None:
        self._limits = limits
        self._start = 0
        self._pieces: list[Int16] = []
        self._length = 0  # samples of all pieces
        self._marks: list[Mark] = []

    def push(self, events: Iterable[AudioEvent]) -> Iterator[RecordingPart]:
        """Yield the parts that these events complete."""
        for event in events:
            if isinstance(event, AudioChunk):
                self._add(event)
                yield from self._complete()

    def finish(self) -> Iterator[RecordingPart]:
        """End the recording; yield the last part, if any."""
        if self._length:
            yield self._cut(self._length)

    def _add(self, piece: AudioChunk) -> None:
        if not self._length:
            self._start = piece.start
        self._pieces.append(piece.pcm)
        self._length += len(piece.pcm)
        if piece.boundary != "none" and self._length:
            self._marks.append(Mark(self._length, piece.boundary == "endpoint"))

    def _complete(self) -> Iterator[RecordingPart]:
        while self._length:
            end = self._limits.segment_end(
                self._marks, self._length, lambda start, end: self._joined()[start:end]
            )
            if end is None:
                return
            yield self._cut(end)

    def _joined(self) -> Int16:
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def _cut(self, samples: int) -> RecordingPart:
        audio = self._joined()
        pcm = audio[:samples].astype("<i2", copy=False).tobytes()
        part = RecordingPart(self._start, self._start + samples, pcm)
        self._start += samples
        self._length -= samples
        self._pieces = [audio[samples:]] if self._length else []
        self._marks = after_cut(self._marks, samples)
        return part
