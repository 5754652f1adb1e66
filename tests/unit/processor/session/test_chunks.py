"""Whole chunks: features as if silence followed, and the unchanged part of a growing chunk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import WhisperFeatureExtractor

from auricle.audio.features import FeaturePacket
from auricle.audio.mel import IncrementalLogMel, normalise
from auricle.audio.pcm import to_float
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.whole_chunks import LOOKAHEAD, WholeChunks
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import CheckpointError, ProtocolError
from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.workers.encode.cost import cost_of
from auricle.workers.encode.encoder import MelWindow
from auricle.workers.encode.main import encoder_for
from auricle.workers.encode.passes import encode_silence
from auricle.workers.encode.whole_chunks import WholeChunkEncoder
from auricle.workers.encode.worker import check_window
from auricle_testing.checkpoints.other_models import DEMO, Stock, random_qwen2_audio

pytestmark = pytest.mark.unit
SECOND = 16_000
CHUNK = 30 * SECOND
GEOMETRY = WholeChunks(100, 3000 + LOOKAHEAD, 64, 192, 2, 1152, 1089, 4096)
SCHEME = KeyScheme("f" * 32, "float32", "tenant")
CPU = EncodeWorkerSettings(dtype="float32", threads=1)


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stock, ModelCheckpoint]:
    path = tmp_path_factory.mktemp("qwen2-audio")
    return random_qwen2_audio(path), open_checkpoint(path)


def speech(samples: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(samples)
    loudness = 1 + np.sin(np.arange(samples) / 5_000)
    return np.clip(noise * loudness * 2_000, -32768, 32767).astype(np.int16)


def segment(*parts: np.ndarray) -> SegmentAudio:
    audio = SegmentAudio(GEOMETRY, SCHEME)
    for part in parts:
        audio.push(part)
    return audio


def test_copies_that_are_used_at_the_same_time_have_the_same_windows() -> None:
    """Words and a translation of one segment are requested concurrently, each in a thread."""
    samples = 11 * SECOND + 77
    expected = [window.key for window in segment(speech(samples)).windows(samples)]
    for _ in range(10):
        audio = segment(speech(samples))
        with ThreadPoolExecutor(4) as threads:
            copies = [audio.encoded_by(GEOMETRY, SCHEME) for _ in range(4)]
            found = list(threads.map(lambda copy: copy.windows(samples), copies))
        assert all([window.key for window in windows] == expected for windows in found)


def test_an_event_loop_does_not_wait_for_a_copy_that_computes_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = 4 * SECOND
    expected = [window.key for window in segment(speech(samples)).windows(samples)]
    audio = segment(speech(samples))
    copy = audio.encoded_by(GEOMETRY, SCHEME)
    computes, goes_on = Event(), Event()
    compute = copy._whole_chunks

    def slowly(samples: int) -> tuple[Window, ...]:
        computes.set()
        assert goes_on.wait(60)
        return compute(samples)

    monkeypatch.setattr(copy, "_whole_chunks", slowly)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(copy.windows, samples)
        assert computes.wait(60)
        assert audio.windows_at_once(samples) is None
        goes_on.set()
        assert [window.key for window in found.result()] == expected
    windows = audio.windows_at_once(samples)
    assert windows is not None and [window.key for window in windows] == expected


@pytest.mark.parametrize(
    "samples", [1, 150, 201, 1_600, 16_000, 99_999, CHUNK - 481, CHUNK - 161, CHUNK - 1, CHUNK]
)
def test_features_are_those_of_audio_filled_up_with_silence(samples: int) -> None:
    pcm = to_float(speech(samples))
    expected = WhisperFeatureExtractor(feature_size=128)(
        pcm, sampling_rate=SECOND, return_tensors="np", return_attention_mask=True
    )
    mel = IncrementalLogMel()
    mel.push(pcm)
    frames, maximum = mel.before_silence(samples, CHUNK - samples, LOOKAHEAD)
    assert len(frames) == expected.attention_mask.sum() + LOOKAHEAD
    there = min(len(frames), 3000)
    np.testing.assert_allclose(
        normalise(frames, maximum - 8.0)[:there].T,
        expected.input_features[0, :, :there],
        atol=1e-4,
    )


def test_full_chunks_keep_their_keys_and_finished_seconds_too() -> None:
    audio = segment(speech(65 * SECOND))
    early = audio.windows(31 * SECOND)
    late = audio.windows(62 * SECOND)
    assert [w.partial for w in early] == [False, True]
    assert [w.partial for w in late] == [False, False, True]
    assert early[0].key == late[0].key
    assert early[1].key != late[1].key
    assert early[1].blocks[0].key != late[1].blocks[0].key  # its end was computed before silence
    finished = [block.key for block in late[2].blocks if block.final]
    grown = audio.windows(63 * SECOND)[2]
    assert finished == [block.key for block in grown.blocks if block.final][:1]


def test_a_segment_cut_before_its_last_decode_is_as_if_it_had_never_been_longer() -> None:
    pcm = speech(40 * SECOND)
    for longest, cut in ((40 * SECOND, 38 * SECOND + 77), (40 * SECOND, 12 * SECOND)):
        audio = segment(pcm)
        audio.windows(longest)
        expected = segment(pcm[:cut]).windows(cut)
        assert [w.key for w in audio.windows(cut)] == [w.key for w in expected]


@settings(deadline=None, max_examples=15)
@given(cuts=st.lists(st.integers(1, 60_000), min_size=1, max_size=8))
def test_the_way_the_audio_was_cut_does_not_show_in_keys(cuts: list[int]) -> None:
    pcm = speech(max(sum(cuts), 4_000))
    pieces = segment()
    for start, end in pairwise(np.cumsum([0, *cuts, len(pcm)])):
        pieces.push(pcm[start:end])
        if pieces.samples:
            pieces.windows(pieces.samples)
    keys = [w.key for w in pieces.windows(len(pcm))]
    assert keys == [w.key for w in segment(pcm).windows(len(pcm))]


def test_a_chunk_of_a_few_milliseconds_has_no_embeddings_and_is_left_out() -> None:
    audio = segment(speech(CHUNK + 300))
    assert [w.embeddings for w in audio.windows(CHUNK + 300)] == [750]
    assert [w.embeddings for w in audio.windows(CHUNK)] == [750]
    assert GEOMETRY.segment_embeddings(3000) == 750
    assert GEOMETRY.segment_embeddings(6010) == 1502


def test_workers_accept_what_a_processor_sends_of_a_full_chunk() -> None:
    (window,) = segment(speech(CHUNK)).windows(CHUNK)
    (sent,) = SentBlocks().features(1, [window])
    assert sent.frames == GEOMETRY.window_frames
    check_window(sent, GEOMETRY)


def test_features_of_the_client_are_refused() -> None:
    packet = FeaturePacket(0, 0, 1_600, last=False, log_mel=b"")
    with pytest.raises(ProtocolError, match="send samples"):
        segment().push_features(packet)


@pytest.mark.parametrize("samples", [2_000, CHUNK - 481, CHUNK - 161, CHUNK - 1, CHUNK])
def test_a_chunk_that_is_nearly_full_is_encoded_as_the_stock_model_does(
    random: tuple[Stock, ModelCheckpoint], samples: int
) -> None:
    stock, checkpoint = random
    encoder = encoder_for(checkpoint, CPU)
    pcm = speech(samples)
    (window,) = segment(pcm).windows(samples)
    (found,) = encoder.encode([MelWindow(window.frames, window.floor)])
    assert len(found) == window.embeddings
    torch.testing.assert_close(found, stock.embeddings(to_float(pcm)), atol=1e-4, rtol=0)


def test_silence_can_be_encoded_and_has_a_cost(random: tuple[Stock, ModelCheckpoint]) -> None:
    checkpoint = random[1]
    encode_silence(encoder_for(checkpoint, CPU), checkpoint.geometry)
    cost = cost_of(checkpoint)
    assert cost.convs([100, 50]) == 0
    assert 0 < 2 * cost.window(300) < cost.window(750)


def test_an_encoder_that_needs_whole_chunks_refuses_other_checkpoints() -> None:
    with pytest.raises(CheckpointError, match="is not encoded in whole chunks"):
        WholeChunkEncoder(open_checkpoint(DEMO), "float32", "cpu", 1)
