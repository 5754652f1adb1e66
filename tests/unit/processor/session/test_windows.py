"""Windows and keys: which windows get a new key, and which keep theirs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.core.errors import BadRequest
from auricle.embeddings.layout import KEY_BYTES, check_keys
from auricle.processor.session.windows import KeyScheme
from tests.fakes.segment_audio import SCHEME, SECOND, segment, speech

pytestmark = pytest.mark.unit


def test_a_segment_cut_before_its_last_decode_is_as_if_it_had_never_been_longer() -> None:
    pcm = np.concatenate([speech(12, level=0.001), speech(8, level=0.5)])
    audio = segment(pcm)
    audio.windows(20 * SECOND)
    cut = 11 * SECOND + 77
    assert [w.key for w in audio.windows(cut)] == [w.key for w in segment(pcm[:cut]).windows(cut)]


def test_a_20_s_segment_has_two_whole_windows_and_a_partial_one() -> None:
    windows = segment(speech(20)).windows(20 * SECOND)
    assert [len(w.frames) for w in windows] == [800, 800, 400]
    assert [w.partial for w in windows] == [False, False, True]
    assert [w.embeddings for w in windows] == [104, 104, 52]


def test_a_window_whose_last_frame_may_still_change_is_partial() -> None:
    (window,) = segment(speech(8)).windows(8 * SECOND)
    assert len(window.frames) == 800
    assert window.partial
    audio = segment(speech(8 + 0.01))
    assert not audio.windows(8 * SECOND + 160)[0].partial


def test_finished_windows_keep_their_keys_as_the_segment_grows() -> None:
    audio = segment(speech(30))
    first = audio.windows(9 * SECOND)[0].key
    later = audio.windows(28 * SECOND)
    assert later[0].key == first
    assert audio.windows(29 * SECOND)[1].key == later[1].key


def test_a_growing_window_gets_a_new_key() -> None:
    audio = segment(speech(5))
    assert audio.windows(2 * SECOND)[0].key != audio.windows(3 * SECOND)[0].key


def test_louder_audio_later_changes_only_windows_that_the_clamp_reaches() -> None:
    quiet_pause = np.concatenate([speech(4), np.zeros(4 * SECOND, np.int16)])
    audio = segment(speech(8), quiet_pause, speech(1), speech(8, level=0.9, seed=1))
    before = audio.windows(17 * SECOND)
    after = audio.windows(24 * SECOND)
    assert after[0].key == before[0].key  # nothing in it lies 80 dB below the new maximum
    assert after[1].key != before[1].key  # digital silence is raised to the new floor


@settings(deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(1, 40_000), min_size=1, max_size=8), seed=st.integers(0, 3))
def test_the_way_the_audio_was_cut_does_not_show_in_keys(cuts: list[int], seed: int) -> None:
    pcm = speech(max(sum(cuts), 4_000) / SECOND, seed=seed)
    bounds = np.cumsum([0, *cuts, len(pcm)])
    pieces = segment()
    for start, end in pairwise(bounds):
        pieces.push(pcm[start:end])
        if pieces.samples > 400:
            pieces.windows(pieces.samples)
    keys = [w.key for w in pieces.windows(len(pcm))]
    assert keys == [w.key for w in segment(pcm).windows(len(pcm))]


@pytest.mark.parametrize(
    "other",
    [
        KeyScheme("e" * 32, "float32", "tenant"),
        KeyScheme("f" * 32, "bfloat16", "tenant"),
        KeyScheme("f" * 32, "float32", "another"),
    ],
)
def test_checkpoint_dtype_and_tenant_are_part_of_the_key(other: KeyScheme) -> None:
    pcm = speech(1)
    mine = segment(pcm).windows(SECOND)[0].key
    assert segment(pcm, scheme=other).windows(SECOND)[0].key != mine
    assert len(bytes.fromhex(mine)) == KEY_BYTES


def test_every_key_says_whose_it_is() -> None:
    """Workers reject a key that does not belong to the request's tenant."""
    (window,) = segment(speech(1)).windows(SECOND)
    keys = [window.key, *(block.key for block in window.blocks)]
    check_keys(keys, SCHEME.tenant)
    for other in ("", "tenant2", "Tenant"):
        with pytest.raises(BadRequest):
            check_keys(keys[:1], other)
