"""A segment for Whisper: its audio, some silence after it, and 30 s of shared silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auricle.audio.mel import normalise
from auricle.checkpoints.architectures.base import Architecture
from auricle.checkpoints.architectures.whisper import WHISPER, WHISPER_ENGLISH
from auricle.checkpoints.whole_chunks import (
    CACHED_SILENCE_FRAMES,
    LOOKAHEAD,
    SILENT,
    WhisperChunks,
    read_whisper,
    silence_floor,
)
from auricle.core.errors import CheckpointError
from auricle.processor.segment_encoder import SentBlocks
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.protocol.recognition import BlockFeatures
from tests.fakes.segment_audio import speech

pytestmark = pytest.mark.unit
SIZES = {
    "num_mel_bins": 80, "max_source_positions": 1500, "d_model": 384, "encoder_layers": 4,
    "encoder_ffn_dim": 1536, "encoder_attention_heads": 6, "decoder_layers": 4,
    "vocab_size": 51864, "max_target_positions": 448,
}  # fmt: skip
FULL = read_whisper(SIZES, SIZES, None)
CACHED = FULL.before_cached_silence()
SECOND = 16_000


def windows(
    geometry: WhisperChunks, pcm: Any, samples: int, tenant: str = "t"
) -> tuple[Window, ...]:
    audio = SegmentAudio(geometry, KeyScheme("checkpoint", "float32", tenant))
    audio.push(pcm)
    return audio.windows(samples)


def test_a_chunk_is_30_s_of_which_the_last_2_are_silence() -> None:
    assert FULL.window_samples == 30 * SECOND
    assert FULL.max_segment_samples == 28 * SECOND
    assert FULL.window_embeddings == 1500
    assert FULL.mel_bins == 80 and FULL.hidden_size == 384 and FULL.max_positions == 448
    # The silence stays the same for another size of chunk.
    short = read_whisper(SIZES | {"max_source_positions": 500}, SIZES, None)
    assert short.max_segment_samples == 8 * SECOND


def test_embeddings_are_no_tokens_of_the_prompt() -> None:
    assert FULL.audio_token_id is None
    assert FULL.prompt_tokens(1500) == CACHED.prompt_tokens(200) == 0


def test_two_frames_are_a_position_and_lookahead_is_none() -> None:
    assert [FULL.embeddings(LOOKAHEAD + frames) for frames in (0, 1, 2, 3, 3000)] == [
        0, 1, 1, 2, 1500,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_mel_bins": None}, "num_mel_bins is None"),
        ({"max_source_positions": 0}, "max_source_positions is 0"),
        ({"encoder_attention_heads": 5}, r"d_model.* 384.*encoder_attention_heads"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"max_target_positions": -1}, "max_target_positions is -1"),
    ],
)
def test_sizes_that_do_not_fit_are_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        read_whisper(SIZES | changed, SIZES | changed, None)


@pytest.mark.parametrize(
    ("vocabulary", "architecture"),
    [(51864, WHISPER_ENGLISH), (51865, WHISPER), (51866, WHISPER), (None, WHISPER_ENGLISH)],
)
def test_the_vocabulary_tells_whether_it_knows_english_only(
    vocabulary: int | None, architecture: Architecture
) -> None:
    fitting = [one for one in (WHISPER, WHISPER_ENGLISH) if one.fits({"vocab_size": vocabulary})]
    assert fitting == [architecture]


def test_padded_in_full_a_segment_is_one_window_of_30_s() -> None:
    (window,) = windows(FULL, speech(3), 3 * SECOND)
    assert len(window.frames) == FULL.window_frames and window.embeddings == 1500
    assert (window.frames[3 * 100 + LOOKAHEAD :] == SILENT).all()
    assert window.partial


def test_before_cached_silence_it_has_a_second_of_silence_and_then_a_window_of_it() -> None:
    pcm = speech(3)
    own, silence = windows(CACHED, pcm, 3 * SECOND)
    (full,) = windows(FULL, pcm, 3 * SECOND)
    assert len(own.frames) == 3 * 100 + LOOKAHEAD + CACHED_SILENCE_FRAMES
    assert (own.frames == full.frames[: len(own.frames)]).all()
    assert own.floor == full.floor
    assert own.embeddings == 200
    assert (silence.frames == SILENT).all() and silence.embeddings == 1500
    assert own.partial and not silence.partial


def test_silence_is_the_same_window_for_a_tenants_segments_of_about_one_level() -> None:
    pcm = speech(3)
    silences = {
        windows(CACHED, one, samples)[1].key
        for one, samples in ((pcm, 3 * SECOND), (pcm, 2 * SECOND), (speech(4), 4 * SECOND))
    }
    assert len(silences) == 1
    assert windows(CACHED, pcm, 3 * SECOND, "other")[1].key not in silences
    assert windows(CACHED, pcm // 100, 3 * SECOND)[1].key not in silences


def test_silence_travels_once_and_is_one_second_of_features() -> None:
    sent = SentBlocks()
    first, second = (windows(CACHED, speech(3), samples) for samples in (2 * SECOND, 3 * SECOND))

    def blocks(one: Window, of: tuple[Window, ...]) -> tuple[BlockFeatures, ...]:
        (features,) = (f for f in sent.features(1, of) if f.key == one.key)
        return features.blocks

    carried = [block for block in blocks(first[1], first) if block.log_mel is not None]
    # A whole second, and the lookahead after the thirtieth.
    assert [block.frames for block in carried] == [100, LOOKAHEAD]
    assert sum(block.frames for block in blocks(first[1], first)) == CACHED.window_frames
    sent.arrived(1, first)
    again = [block for block in blocks(second[1], second) if block.log_mel is not None]
    assert [block.frames for block in again] == [LOOKAHEAD]


@pytest.mark.parametrize("geometry", [FULL, CACHED])
def test_close_to_its_end_a_chunk_is_filled_and_no_longer(geometry: WhisperChunks) -> None:
    pcm = np.tile(speech(5), 6)
    found = windows(geometry, pcm, 29 * SECOND + SECOND // 2)
    assert len(found) == 1
    assert len(found[0].frames) == geometry.window_frames


@pytest.mark.parametrize("floor", [-20.0, -10.0, -7.3, -6.94, -4.0, -1.51, 0.0, 1.26])
def test_cached_silence_is_close_to_the_level_that_silence_would_have(floor: float) -> None:
    level = silence_floor(floor)
    silence = np.full((1, 80), SILENT, np.float32)
    rounded, exact = normalise(silence, level), normalise(silence, floor)
    assert abs(rounded - exact).max() <= 1 / 16 + 1e-6
    assert silence_floor(level) == level


def test_cached_silence_has_few_levels() -> None:
    levels = {silence_floor(float(floor)) for floor in np.linspace(-10, 2, 5000)}
    assert len(levels) == 25  # eight per unit of the encoder's input
