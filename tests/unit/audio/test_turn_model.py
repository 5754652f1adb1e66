"""Smart Turn's features equal the published ones, and it distinguishes turns from pauses."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from auricle.audio.pcm import Int16, to_float
from auricle.audio.turn_model import TURN_SAMPLES, SmartTurn, turn_features
from auricle_testing import recordings
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
FILE = ROOT / "models/smart-turn/smart-turn-v3.2-cpu.onnx"


@pytest.fixture(scope="module")
def model() -> SmartTurn:
    return SmartTurn(FILE)


def spoken(name: str, seconds: float, begin: float = 0.0) -> Int16:
    pcm = (recordings.samples(name) * 32767).astype(np.int16)
    return pcm[int(begin * 16_000) : int(seconds * 16_000)]


@pytest.mark.parametrize("seconds", [0.0, 0.3, 7.99, 8.0, 20.0])
def test_features_are_whispers(seconds: float) -> None:
    pcm = spoken("evening", seconds)
    audio = np.zeros(TURN_SAMPLES, np.float32)
    heard = to_float(pcm[-TURN_SAMPLES:])
    audio[TURN_SAMPLES - len(heard) :] = heard
    extractor = WhisperFeatureExtractor(feature_size=80, chunk_length=8)
    expected = extractor(
        audio, sampling_rate=16_000, return_tensors="np", do_normalize=True, max_length=TURN_SAMPLES
    ).input_features[0]
    # With torch installed, the extractor computes in float32.
    np.testing.assert_allclose(turn_features(pcm), expected, atol=1e-3)


def test_a_pause_within_a_sentence_is_told_from_the_end(model: SmartTurn) -> None:
    """This must hold on CPUs whose native multiplication of quantized weights saturates, too."""
    within, after = spoken("evening", 5.2), spoken("evening", 25.5)
    assert model.probability(within) < 0.2
    assert model.probability(after) > 0.6


def test_only_the_last_eight_seconds_count(model: SmartTurn) -> None:
    assert model.probability(spoken("evening", 20.0)) == model.probability(
        spoken("evening", 20.0, begin=12.0)
    )


def test_the_same_audio_gives_the_same_value_on_any_thread(model: SmartTurn) -> None:
    turns = [spoken("evening", seconds) for seconds in (3.0, 5.2, 9.0, 25.5)]
    alone = [model.probability(turn) for turn in turns]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(model.probability, turns * 3)) == alone * 3


def test_a_model_of_something_else_is_refused() -> None:
    found = importlib.util.find_spec("silero_vad")
    assert found is not None and found.submodule_search_locations
    other = Path(found.submodule_search_locations[0]) / "data/silero_vad_16k_op15.onnx"
    with pytest.raises(ValueError, match="is not a Smart Turn v3 model: its inputs are"):
        SmartTurn(other)
