"""The work of decoding is at most proportional to packets, frames and pieces.

The tests count calls of Python and C functions, and elements that numpy copies or reads; unlike
times, both are the same in every run.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from auricle.audio.recording import Blocks, RecordingLimits, read_recording
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.recordings.parts import PartCutter
from auricle_testing import media
from tests.decoding import LIMITS

pytestmark = pytest.mark.unit
ANY = RecordingLimits(seconds=1e9, packets_per_second=10**9)
_MOST_GROWTH = 2.1  # when the input doubles


class Counted(np.ndarray):
    """An array that counts reads of its length and copied elements."""

    operations = 0

    def __len__(self) -> int:
        Counted.operations += 1
        return super().__len__()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        Counted.operations += np.size(np.asarray(result))
        return result


def counted(samples: int, dtype: type = np.int16) -> np.ndarray:
    return np.zeros(samples, dtype).view(Counted)


def calls(work: Callable[[], object]) -> int:
    """Function calls, and operations on `Counted` arrays, while `work` runs."""
    Counted.operations = count = 0

    def seen(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count + Counted.operations


def is_linear(work: Callable[[int], object], size: int) -> None:
    work(size)  # one-time work
    one, two, four = (calls(lambda n=n: work(n)) for n in (size, 2 * size, 4 * size))
    assert one > size / 10, "nothing was counted"
    assert two <= _MOST_GROWTH * one
    assert four <= _MOST_GROWTH * two


def test_packets_of_one_sample() -> None:
    def decode(packets: int) -> None:
        file = io.BytesIO(media.one_sample_packets(packets))
        for _ in read_recording(file, "x", ANY):
            pass

    is_linear(decode, 2_000)


def test_frames() -> None:
    def decode(frames: int) -> None:
        seconds = frames * 65_535 // 16_000
        for _ in read_recording(io.BytesIO(media.silent_flac(seconds, 16_000, 1)), "x", ANY):
            pass

    is_linear(decode, 100)


def test_gathering_blocks() -> None:
    def gather(pieces: int) -> None:
        blocks = Blocks(10**6)
        for _ in range(pieces):
            list(blocks.push(counted(1, np.float32)))

    is_linear(gather, 1_000)


def test_pieces_of_a_part() -> None:
    """Many pieces form one part; here it has the maximum number of pieces."""
    piece = AudioChunk(0, counted(3))

    def cut(pieces: int) -> None:
        cutter = PartCutter(LIMITS)
        assert len([*cutter.push([piece] * pieces), *cutter.finish()]) == 1

    is_linear(cut, 1_000)
