"""`models.training.augment`: changes of the voice, the room and the line, without side effects."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from models.training.augment import codecs, rooms, voice

pytestmark = pytest.mark.unit
RATE = 16_000
Samples = npt.NDArray[np.float32]


def vowel(pitch: float = 120.0, formant: float = 900.0, seconds: float = 1.0) -> Samples:
    """Harmonics of `pitch` below a single resonance at `formant`."""
    time = np.arange(int(seconds * RATE)) / RATE
    tone = sum(
        np.exp(-(((k * pitch - formant) / 250) ** 2)) * np.sin(2 * np.pi * k * pitch * time + k)
        for k in range(1, 50)
    )
    return (0.3 * tone / np.abs(tone).max()).astype(np.float32)


def height(samples: Samples) -> float:
    """The pitch in Hz, from the maximum of the autocorrelation."""
    echo = np.fft.irfft(np.abs(np.fft.rfft(samples, 4 * len(samples))) ** 2)
    shortest, longest = RATE // 300, RATE // 60
    return RATE / (shortest + int(np.argmax(echo[shortest:longest])))


def resonance(samples: Samples) -> float:
    """The spectral centroid (by energy) in Hz."""
    energy = np.abs(np.fft.rfft(samples)) ** 2
    return float((np.fft.rfftfreq(len(samples), 1 / RATE) * energy).sum() / energy.sum())


@pytest.mark.parametrize("factor", [0.85, 1.25])
def test_tempo_changes_how_long_it_lasts_and_nothing_else(factor: float) -> None:
    before = vowel()
    after = voice.change_tempo(before, factor)
    assert len(after) == round(len(before) / factor)
    assert height(after) == pytest.approx(height(before), rel=0.03)
    assert resonance(after) == pytest.approx(resonance(before), rel=0.05)
    assert after.std() == pytest.approx(before.std(), rel=0.15)


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_pitch_changes_how_high_it_is_and_leaves_the_formants(factor: float) -> None:
    before = vowel()
    after = voice.change_pitch(before, factor)
    assert len(after) == len(before)
    assert height(after) == pytest.approx(factor * height(before), rel=0.04)
    assert resonance(after) == pytest.approx(resonance(before), rel=0.1)


@pytest.mark.parametrize("factor", [0.87, 1.15])
def test_formants_change_what_resounds_and_leave_the_pitch(factor: float) -> None:
    before = vowel()
    after = voice.change_formants(before, factor)
    assert len(after) == len(before)
    assert height(after) == pytest.approx(height(before), rel=0.02)
    assert resonance(after) == pytest.approx(factor * resonance(before), rel=0.06)


def test_a_room_lets_the_voice_through_first_and_dies_away() -> None:
    room = rooms.response(seed=1, seconds=0.4, ratio=3.0)
    assert room[0] == 1.0
    assert 10 * np.log10(1 / (room[1:] ** 2).sum()) == pytest.approx(3.0, abs=0.1)
    first, last = (room[1:1600] ** 2).mean(), (room[-640:] ** 2).mean()
    assert 10 * np.log10(last / first) < -35
    assert (room == rooms.response(1, 0.4, 3.0)).all()
    assert (room[1:] != rooms.response(2, 0.4, 3.0)[1:]).any()
    before = vowel()
    after = rooms.placed(before, room)
    assert len(after) == len(before)
    assert after == pytest.approx(np.convolve(before, room)[: len(before)], abs=1e-4)


def test_a_telephone_has_no_high_notes_and_256_levels() -> None:
    noise = 0.1 * np.random.default_rng(4).standard_normal(RATE).astype(np.float32)
    energy = np.abs(np.fft.rfft(codecs.g711(noise, "ULAW"))) ** 2
    notes = np.fft.rfftfreq(RATE, 1 / RATE)
    assert energy[notes > 4100].sum() < 1e-3 * energy.sum()
    assert energy[notes < 200].sum() < 1e-2 * energy.sum()
