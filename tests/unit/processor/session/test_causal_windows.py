"""Windows for a causal encoder: finished ones stay, and are sent once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from auricle.audio.features import FeaturePacket
from auricle.audio.pcm import Int16
from auricle.checkpoints.causal import Causal
from auricle.core.errors import BadRequest, ProtocolError
from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.workers.encode.worker import check_window
from tests.fakes.segment_audio import segment as plain
from tests.fakes.segment_audio import speech

pytestmark = pytest.mark.unit
GRID = 10_240
# Every position depends on at most three blocks of 0.32 s.
GEOMETRY = Causal(
    block_frames=32, window_frames=128, encoder_d_model=8, hidden_size=8, text_layers=1,
    vocab_size=8, audio_token_id=1, max_positions=512, layers=2, past=6, taps=4, projected=8,
)  # fmt: skip
SPEECH = speech(6)


def segment(pcm: Int16 = SPEECH) -> SegmentAudio:
    audio = SegmentAudio(GEOMETRY, KeyScheme("checkpoint", "float32", "tenant"))
    audio.push(pcm)
    return audio


def cuts() -> range:
    return range(GRID, len(SPEECH) + 1, GRID)


def test_finished_windows_keep_their_keys_whatever_follows() -> None:
    grown, keys = segment(), {}
    for samples in cuts():
        for window in grown.windows(samples):
            assert window.partial == (len(window.frames) < 128)
            if not window.partial:
                assert keys.setdefault(window.index, window.key) == window.key
    assert len(keys) == 4
    at_once = segment().windows(len(SPEECH))
    assert [window.key for window in at_once[:4]] == list(keys.values())


def test_a_cut_before_the_last_decode_gives_what_it_gave_then() -> None:
    grown = segment()
    then = [window.key for window in grown.windows(3 * GRID)]
    grown.windows(6 * GRID)
    assert [window.key for window in grown.windows(3 * GRID)] == then


def test_a_key_tells_what_came_before() -> None:
    other = segment(np.concatenate([SPEECH[:1000] // 2, SPEECH[1000:]]))
    one, two = (audio.windows(len(SPEECH)) for audio in (segment(), other))
    assert (one[3].frames == two[3].frames).all()
    assert one[3].key != two[3].key
    assert one[3].blocks[-1].key != two[3].blocks[-1].key


def test_a_beginning_in_the_middle_has_keys_of_its_own() -> None:
    windows = segment().windows(len(SPEECH))
    own = {block.key for window in windows for block in window.blocks[window.context :]}
    last = windows[3]
    assert GEOMETRY.context_blocks == last.context == 3
    assert [block.key in own for block in last.blocks[:3]] == [False, False, True]
    assert [block.final for block in last.blocks[:3]] == [False, False, True]


def sent_in(sent: SentBlocks, windows: tuple[Window, ...]) -> list[tuple[int, int]]:
    """For each window, the numbers of its context blocks and of its blocks with features."""
    found = sent.features(1, windows)
    for window in found:
        check_window(window, GEOMETRY)
    return [(w.context, sum(b.log_mel is not None for b in w.blocks)) for w in found]


def test_of_what_comes_before_a_window_only_the_last_block_is_named() -> None:
    audio, sent = segment(), SentBlocks()
    early = audio.windows(2 * GRID)
    assert sent_in(sent, early) == [(0, 4)]
    sent.arrived(1, early)
    late = audio.windows(3 * GRID)
    # The first window is complete now, and later audio is in the same request.
    assert sent_in(sent, late) == [(0, 1), (1, 2)]


def test_a_worker_that_has_lost_what_it_had_gets_all_that_matters() -> None:
    audio, sent = segment(), SentBlocks()
    windows = audio.windows(len(SPEECH))
    sent.arrived(1, windows)
    sent.forget(1)
    assert sent_in(sent, windows[3:]) == [(3, 7), (3, 6)]


def test_blocks_are_not_encoded_before_those_they_follow() -> None:
    assert not segment().encodes_ahead
    assert plain(SPEECH).encodes_ahead


def test_more_context_than_matters_is_refused() -> None:
    (window,) = SentBlocks().features(1, segment().windows(GRID))
    with pytest.raises(BadRequest, match="0 to 3 blocks before it, got 4"):
        check_window(replace(window, context=4), GEOMETRY)


def test_features_of_clients_are_refused() -> None:
    with pytest.raises(ProtocolError, match="send samples"):
        segment(SPEECH[:0]).push_features(FeaturePacket(0, 0, 1_600, last=False, log_mel=b""))
