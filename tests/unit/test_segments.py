"""Where decodes happen and where a segment ends."""

import numpy as np
import pytest

from auricle.processor.segments import NextDecode, SegmentPolicy, next_decode
from tests.unit.test_windows import SECOND, segment, speech

pytestmark = pytest.mark.unit

POLICY = SegmentPolicy.from_seconds(chunk_ms=640, pause_after=5, maximum=10, search=3)
GRID = 10_240
SILENCE = np.zeros(SECOND // 2, np.int16)


def test_nothing_is_decoded_before_a_grid_point() -> None:
    assert next_decode(segment(speech(0.63)), POLICY, 0, 0) is None


def test_decodes_lie_on_the_grid_and_skip_points_already_passed() -> None:
    audio = segment(speech(0.7))
    assert next_decode(audio, POLICY, 0, 0) == NextDecode(GRID, ends_segment=False)
    assert next_decode(audio, POLICY, GRID, 0) is None
    audio.push(speech(2))
    assert next_decode(audio, POLICY, GRID, 0) == NextDecode(4 * GRID, ends_segment=False)


def test_a_pause_ends_a_segment_only_once_it_is_long_enough() -> None:
    early = segment(speech(3), SILENCE, speech(1))
    step = next_decode(early, POLICY, 0, 0)
    assert step is not None and not step.ends_segment
    late = segment(speech(6), np.zeros(SECOND, np.int16), speech(1))
    step = next_decode(late, POLICY, 0, 0)
    assert step is not None and step.ends_segment
    assert 6 * SECOND <= step.offset <= 7 * SECOND


def test_the_end_of_a_segment_does_not_depend_on_which_grid_points_were_decoded() -> None:
    pcm = np.concatenate([speech(6), np.zeros(SECOND, np.int16), speech(4)])
    at_once = next_decode(segment(pcm), POLICY, 0, 0)
    audio, offset, stepwise = segment(), 0, None
    for start in range(0, len(pcm), GRID):
        audio.push(pcm[start : start + GRID])
        step = next_decode(audio, POLICY, offset, 0)
        if step is not None and step.ends_segment:
            stepwise = step
            break
        offset = step.offset if step else offset
    assert stepwise == at_once


def test_at_the_cap_a_segment_is_cut_at_its_quietest_point() -> None:
    audio = segment(speech(8), speech(0.3, level=0.001), speech(4))
    step = next_decode(audio, POLICY, 9 * SECOND // GRID * GRID, 0)
    assert step is not None and step.ends_segment
    assert 8 * SECOND <= step.offset <= 8.3 * SECOND


def test_a_cut_never_lies_before_the_last_committed_word() -> None:
    audio = segment(speech(8), speech(0.3, level=0.001), speech(4))
    step = next_decode(audio, POLICY, 9 * SECOND // GRID * GRID, not_before=int(9.2 * SECOND))
    assert step is not None and step.ends_segment
    assert step.offset >= 9.2 * SECOND
