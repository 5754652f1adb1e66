"""The positions of decodes, and the end of a segment."""

import numpy as np
import pytest

from auricle.audio.segmentation import Mark
from auricle.processor.session.rules import NextDecode, SegmentPolicy, next_decode
from auricle.processor.session.windows import SegmentAudio
from tests.fakes.segment_audio import SECOND, segment, speech

pytestmark = pytest.mark.unit

POLICY = SegmentPolicy.from_seconds(chunk_ms=640, pause_after=5, maximum=10, search=3)
GRID = 10_240


def step(
    audio: SegmentAudio, *marks: Mark, last: int = 0, not_before: int = 0, stride: int = 1
) -> NextDecode | None:
    return next_decode(audio, marks, POLICY, last_offset=last, not_before=not_before, stride=stride)


def pause(seconds: float) -> Mark:
    return Mark(int(seconds * SECOND), ends_speech=False)


def endpoint(seconds: float) -> Mark:
    return Mark(int(seconds * SECOND), ends_speech=True)


def test_nothing_is_decoded_before_a_grid_point() -> None:
    assert step(segment(speech(0.63))) is None


def test_decodes_lie_on_the_grid_and_skip_points_already_passed() -> None:
    audio = segment(speech(0.7))
    assert step(audio) == NextDecode(GRID, ends_segment=False)
    assert step(audio, last=GRID) is None
    audio.push(speech(2))
    assert step(audio, last=GRID) == NextDecode(4 * GRID, ends_segment=False)


def test_a_stretched_cadence_skips_grid_points_and_never_moves_them() -> None:
    audio = segment(speech(1.3))
    assert step(audio, stride=3) is None
    audio.push(speech(0.7))
    assert step(audio, stride=3) == NextDecode(3 * GRID, ends_segment=False)
    assert step(audio, last=GRID, stride=3) is None


def test_the_end_of_speech_ends_a_segment_however_short() -> None:
    assert step(segment(speech(1)), endpoint(0.4)) == NextDecode(int(0.4 * SECOND), True)


def test_a_stretched_cadence_does_not_delay_the_end() -> None:
    assert step(segment(speech(1)), endpoint(1), stride=4) == NextDecode(SECOND, True)


def test_a_pause_ends_a_segment_only_once_it_is_long_enough() -> None:
    audio = segment(speech(8))
    early = step(audio, pause(3))
    assert early is not None and not early.ends_segment
    assert step(audio, pause(3), pause(6), pause(7)) == NextDecode(6 * SECOND, True)


def test_the_end_of_a_segment_does_not_depend_on_which_grid_points_were_decoded() -> None:
    audio = segment(speech(8))
    ends = {step(audio, pause(6), last=last * GRID, stride=s) for last in range(9) for s in (1, 3)}
    assert ends == {NextDecode(6 * SECOND, ends_segment=True)}


def test_at_the_cap_a_segment_is_cut_at_its_quietest_point() -> None:
    audio = segment(speech(8), speech(0.3, level=0.001), speech(4))
    cut = step(audio, last=9 * SECOND // GRID * GRID)
    assert cut is not None and cut.ends_segment
    assert 8 * SECOND <= cut.offset <= 8.3 * SECOND


def test_the_cap_comes_before_a_later_pause_or_end() -> None:
    audio = segment(speech(8), speech(0.3, level=0.001), speech(4))
    cut = step(audio, pause(11), endpoint(12))
    assert cut is not None and cut.ends_segment
    assert cut.offset <= 8.3 * SECOND


def test_a_cut_never_lies_before_the_last_committed_word() -> None:
    audio = segment(speech(8), speech(0.3, level=0.001), speech(4))
    cut = step(audio, last=9 * SECOND // GRID * GRID, not_before=int(9.2 * SECOND))
    assert cut is not None and cut.ends_segment
    assert cut.offset >= 9.2 * SECOND


def test_silence_at_the_cap_is_cut_too() -> None:
    cut = step(segment(np.zeros(11 * SECOND, np.int16)))
    assert cut is not None and cut.ends_segment
    assert 0 < cut.offset <= 10 * SECOND


def test_work_comes_at_the_next_grid_point() -> None:
    policy = SegmentPolicy.from_seconds(chunk_ms=500, pause_after=8, maximum=20, search=3)
    assert policy.samples_until_work(0, ahead=False) == 8_000
    assert policy.samples_until_work(8_001, ahead=False) == 7_999


def test_where_grid_points_are_far_apart_it_also_comes_with_every_finished_second() -> None:
    """A second is finished 40 samples after its end: then its last frame is final."""
    policy = SegmentPolicy.from_seconds(chunk_ms=2_000, pause_after=8, maximum=20, search=3)
    assert policy.samples_until_work(0, ahead=True) == 16_040
    assert policy.samples_until_work(16_039, ahead=True) == 1
    assert policy.samples_until_work(16_040, ahead=True) == 15_960  # the grid point at 2 s
    assert policy.samples_until_work(32_000, ahead=True) == 40
