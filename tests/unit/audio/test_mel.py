"""Incremental log-mel equals the one-shot extractor for any chunking of the audio."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank

from auricle.audio.constants import FFT, HOP, SAMPLE_RATE
from auricle.audio.mel import IncrementalLogMel, mel_tables, normalise

pytestmark = pytest.mark.unit


def audio(kind: str, samples: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(samples)
    shaped = {
        "noise": 0.1 * noise,
        "silence": 0.0 * noise,
        "clipping": np.clip(5 * noise, -1, 1),
        "loud end": 0.2 * noise * np.linspace(0.001, 1, samples) ** 4,
    }[kind]
    return shaped.astype(np.float32)


@pytest.mark.parametrize("bins", [80, 128])
def test_the_filters_are_the_published_extractors_to_the_bit(bins: int) -> None:
    expected = mel_filter_bank(
        FFT // 2 + 1, bins, 0.0, SAMPLE_RATE / 2, SAMPLE_RATE, norm="slaney", mel_scale="slaney"
    )
    np.testing.assert_array_equal(mel_tables(bins)[1], expected)


@pytest.mark.parametrize("kind", ["noise", "silence", "clipping", "loud end"])
@pytest.mark.parametrize("samples", [201, 1_600, 10_240, 48_077])
def test_one_shot_features_equal_the_published_extractor(kind: str, samples: int) -> None:
    pcm = audio(kind, samples)
    mel = IncrementalLogMel()
    mel.push(pcm)
    frames, maximum = mel.frames(samples)
    extractor = WhisperFeatureExtractor(feature_size=128)
    expected = extractor(pcm, sampling_rate=16_000, padding=True, truncation=False)
    np.testing.assert_allclose(
        normalise(frames, maximum - 8.0).T, expected.input_features[0], atol=2e-5
    )


@settings(deadline=None, max_examples=40)
@given(
    cuts=st.lists(st.integers(1, 9_000), min_size=1, max_size=12),
    kind=st.sampled_from(["noise", "silence", "clipping", "loud end"]),
)
def test_any_cut_of_the_audio_gives_the_same_bits(cuts: list[int], kind: str) -> None:
    total = max(sum(cuts), 201)
    pcm = audio(kind, total)
    pieces = IncrementalLogMel()
    at = 0
    for cut in [*cuts, total]:
        pieces.push(pcm[at : at + cut])
        at = min(at + cut, total)
        if pieces.samples > 200:
            pieces.frames(pieces.samples)
    whole = IncrementalLogMel()
    whole.push(pcm)
    assert np.array_equal(pieces.frames(total)[0], whole.frames(total)[0])


def test_single_sample_packets_give_the_same_bits() -> None:
    pcm = audio("noise", 3 * HOP + 500)
    pieces, whole = IncrementalLogMel(), IncrementalLogMel()
    for sample in pcm:
        pieces.push(np.array([sample]))
    whole.push(pcm)
    assert np.array_equal(pieces.frames(len(pcm))[0], whole.frames(len(pcm))[0])


def test_old_samples_are_forgotten() -> None:
    mel = IncrementalLogMel()
    for _ in range(60):
        mel.push(audio("noise", 16_000))
        mel.frames(mel.samples)
    assert len(mel._samples) < 3 * 16_000
    assert mel.samples == 60 * 16_000


@pytest.mark.parametrize(("asked", "message"), [(200, "at least 201"), (9_000, "received")])
def test_impossible_lengths_are_refused(asked: int, message: str) -> None:
    mel = IncrementalLogMel()
    mel.push(audio("noise", 1_000))
    with pytest.raises(ValueError, match=message):
        mel.frames(asked)
