"""Channels are averaged, unless they cancel each other."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from auricle.audio.findings import Findings
from auricle.audio.mixing import Mixer
from auricle.audio.recording import RecordingLimits, filled, read_recording
from auricle_testing import media, recordings
from auricle_testing.containers import encoded

pytestmark = pytest.mark.unit
VOICE = (recordings.samples("hello") * 32_767).astype(np.int16)
NOISE = np.random.default_rng(0).integers(-3_000, 3_000, len(VOICE)).astype(np.int16)


def mixed(*channels: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    data = media.wav(np.stack(channels, axis=1).tobytes(), channels=len(channels))
    findings = Findings()
    blocks = read_recording(io.BytesIO(data), "x", RecordingLimits(100.0), findings=findings)
    samples = np.concatenate(list(filled(blocks)))
    return samples, findings.warnings(len(samples) / 16_000)


def level(samples: np.ndarray) -> float:
    return float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))


@pytest.mark.parametrize("gain", [1.0, 0.9, 0.7])
def test_a_channel_with_its_sign_changed_does_not_silence_the_other(gain: float) -> None:
    samples, warnings = mixed(VOICE, (-gain * VOICE).astype(np.int16))
    assert level(samples) > 0.95 * level(VOICE)
    assert len(warnings) == 1
    assert warnings[0].startswith("channels cancel each other for")
    assert warnings[0].endswith("the louder one is transcribed there")


@pytest.mark.parametrize(
    "other", [VOICE, 0 * VOICE, NOISE, VOICE // 2, np.roll(VOICE, 40), -VOICE // 8]
)
def test_other_channels_are_averaged_and_nothing_is_told(other: np.ndarray) -> None:
    samples, warnings = mixed(VOICE, other.astype(np.int16))
    mean = np.stack([VOICE, other]).mean(axis=0, dtype=np.float32)
    assert np.abs(samples - mean).max() <= 1
    assert warnings == ()


def test_one_voice_among_six_channels_is_averaged() -> None:
    silence = np.zeros_like(VOICE)
    samples, warnings = mixed(silence, silence, VOICE, silence, silence, silence)
    assert level(samples) == pytest.approx(level(VOICE) / 6, rel=0.02)
    assert warnings == ()


def test_channels_that_cancel_for_a_time_only_are_told_apart_there() -> None:
    half = len(VOICE) // 2
    samples, warnings = mixed(VOICE, np.concatenate([VOICE[:half], -VOICE[half:]]))
    assert level(samples[half + 9_600 :]) > 0.9 * level(VOICE[half + 9_600 :])
    assert "the louder one is transcribed there" in warnings[0]


@pytest.mark.parametrize("name", ["mp3", "m4a", "webm", "flac"])
def test_encoded_channels_that_cancel_are_heard(name: str) -> None:
    """Planar and interleaved samples."""
    data = encoded(name, [(0.0, recordings.samples("hello"))], channels=2)
    findings = Findings()
    blocks = read_recording(io.BytesIO(data), "x", RecordingLimits(100.0), findings=findings)
    assert level(np.concatenate(list(filled(blocks)))) > 0.9 * level(VOICE)


def test_a_picked_channel_is_not_mixed() -> None:
    frame = av.AudioFrame.from_ndarray(
        np.stack([VOICE[:320], -VOICE[:320]]), format="s16p", layout="stereo"
    )
    frame.sample_rate = 16_000
    for channel, sign in ((0, 1), (1, -1)):
        mixer = Mixer(channel)
        assert np.array_equal(mixer.mix(frame) * 32_768, sign * VOICE[:320])
        assert not mixer.cancelled
