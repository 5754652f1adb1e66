"""Gemma 4's incremental log-mel equals the published extractor's for the whole audio."""

from __future__ import annotations

import numpy as np
import pytest
from transformers.models.gemma4.feature_extraction_gemma4 import Gemma4AudioFeatureExtractor

from auricle.audio.mel import SemicausalLogMel
from auricle_testing import recordings

pytestmark = pytest.mark.unit
SPEECH = recordings.samples("hello")[:40_000]


@pytest.mark.parametrize("samples", [201, 320, 321, 16_000, 16_001, 39_999])
def test_frames_are_the_published_ones(samples: int) -> None:
    mel = SemicausalLogMel()
    mel.push(SPEECH)
    frames, _ = mel.frames(samples)
    found = Gemma4AudioFeatureExtractor()([SPEECH[:samples]], return_tensors="np")
    expected = found["input_features"][0][found["input_features_mask"][0]]
    assert frames.dtype == np.float32
    np.testing.assert_allclose(frames, expected, atol=1e-4)  # it computes in float32


def test_frames_do_not_depend_on_packets_or_on_what_was_asked_before() -> None:
    whole, pieces = SemicausalLogMel(), SemicausalLogMel()
    whole.push(SPEECH)
    dice = np.random.default_rng(3)
    at = 0
    while at < len(SPEECH):
        end = min(len(SPEECH), at + int(dice.integers(1, 3000)))
        pieces.push(SPEECH[at:end])
        at = end
        if at > 200:
            assert len(pieces.frames(at)[0]) == (at - 1) // 160
    np.testing.assert_array_equal(pieces.frames(at)[0], whole.frames(at)[0])


def test_what_later_audio_is_changes_no_frame() -> None:
    one, other = SemicausalLogMel(), SemicausalLogMel()
    one.push(SPEECH)
    other.push(np.concatenate([SPEECH[:16_001], 1 - np.abs(SPEECH[16_001:])]))
    early, later = one.frames(16_001)[0], other.frames(len(SPEECH))[0]
    np.testing.assert_array_equal(early, later[: len(early)])


def test_what_is_no_frame_or_not_there_is_refused() -> None:
    mel = SemicausalLogMel()
    mel.push(SPEECH[:200])
    with pytest.raises(ValueError, match="201 samples requested, 200 received"):
        mel.frames(201)
    with pytest.raises(ValueError, match="at least 161 samples"):
        mel.frames(160)
