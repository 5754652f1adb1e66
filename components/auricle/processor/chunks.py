"""Features of a segment in chunks of fixed length, each computed as if silence followed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from auricle.audio.constants import Frames
from auricle.audio.mel import IncrementalLogMel
from auricle.audio.pcm import Int16, to_float


@dataclass(frozen=True)
class Chunk:
    """What there is of a chunk: `samples`, unclamped log-mel (frames, bins), and its maximum.

    `frames` are one for each 10 ms begun, and the lookahead.
    """

    samples: int
    frames: Frames
    maximum: float


class ChunkedMel:
    """Computes the features of a segment's chunks; those of a whole chunk once.

    `size` is a chunk's in samples, `lookahead` in frames, `bins` the width of a frame. Not
    thread-safe.
    """

    def __init__(self, size: int, lookahead: int, bins: int) -> None:
        self._size, self._lookahead, self._bins = size, lookahead, bins
        self._whole: list[Chunk] = []
        self._mel = IncrementalLogMel(bins)  # of the chunk after these

    def until(self, samples: int, pcm: Callable[[int, int], Int16]) -> Iterator[Chunk]:
        """Yield the chunks as if the segment ended after `samples`; `pcm` returns a part of it."""
        whole, rest = divmod(samples, self._size)
        if whole < len(self._whole) or (rest < self._mel.samples and whole == len(self._whole)):
            # A cut lies before the last decode.
            self._whole, self._mel = self._whole[:whole], IncrementalLogMel(self._bins)
        while len(self._whole) < whole:
            self._whole.append(self._computed(self._size, pcm))
            self._mel = IncrementalLogMel(self._bins)
        yield from self._whole
        if rest:
            yield self._computed(rest, pcm)

    def _computed(self, samples: int, pcm: Callable[[int, int], Int16]) -> Chunk:
        start = len(self._whole) * self._size
        self._mel.push(to_float(pcm(start + self._mel.samples, start + samples)))
        silence = self._size - samples
        frames, maximum = self._mel.before_silence(samples, silence, self._lookahead)
        return Chunk(samples, frames, maximum)
