"""The same speech in noise, among other voices and by telephone; and audio without words.

Levels of noise are relative to the level of the speech where it is louder than a hundredth of its
peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.signal import resample_poly

from auricle.audio.pcm import Int16, to_float, to_int16
from benchmarks.real_speech.corpus import SAMPLE_RATE, Samples, Spoken, g722, recordings
from models.training.packages import unpacked

_TELEPHONE_RATE = 8_000
_MU = 255.0
_VOICES = 8  # in babble
_CROWD = 24  # voices of a crowd, which are played backwards so that no word is intelligible
_MUSIC = ("asterisk-moh-opsound-g722",)
_DTMF = ((697, 1209), (697, 1336), (697, 1477), (770, 1209), (852, 1336), (941, 1477))
_LOUDNESS = 0.05  # RMS of audio without words
Condition = Callable[[Spoken, Samples], Samples]


def white(snr: float) -> Condition:
    """Return a condition that adds white noise `snr` dB below the speech."""

    def add(spoken: Spoken, samples: Samples) -> Samples:
        noise = _dice(spoken).standard_normal(len(samples)).astype(np.float32)
        return mixed(samples, noise, snr)

    return add


def babble(snr: float) -> Condition:
    """Return a condition that adds other voices at once, `snr` dB below the speech."""

    def add(spoken: Spoken, samples: Samples) -> Samples:
        others = [one.pcm for one in _voices() if one.name != spoken.name]
        return mixed(samples, _crowd(others, len(samples), _VOICES, _dice(spoken)), snr)

    return add


def telephone(_: Spoken, samples: Samples) -> Samples:
    """Return the audio after 8 kHz µ-law, as in G.711."""
    narrow = resample_poly(samples, 1, SAMPLE_RATE // _TELEPHONE_RATE)
    wide = resample_poly(_mu_law(np.clip(narrow, -1, 1)), SAMPLE_RATE // _TELEPHONE_RATE, 1)
    found: Samples = wide[: len(samples)].astype(np.float32)
    return found


CONDITIONS: dict[str, Condition] = {
    "white_10db": white(10),
    "white_3db": white(3),
    "babble_10db": babble(10),
    "babble_3db": babble(3),
    "telephone": telephone,
}


def under(condition: Condition, spoken: Spoken) -> Spoken:
    """Return a recording as it is under a condition; the same each time."""
    samples = np.clip(condition(spoken, to_float(spoken.pcm)), -1, 1)
    return replace(spoken, pcm=to_int16(samples.astype(np.float32)))


def mixed(speech: Samples, noise: Samples, snr: float) -> Samples:
    """Return speech with noise `snr` dB below it; softer as a whole where that would clip."""
    loud = speech[np.abs(speech) > np.abs(speech).max() / 100]
    level = float(np.sqrt(np.mean(loud**2)) / np.sqrt(np.mean(noise**2)))
    both = speech + noise * np.float32(level * 10 ** (-snr / 20))
    return both / np.float32(max(1.0, float(np.abs(both).max())))


def without_words(seconds: float, kinds: Iterable[str] | None = None) -> Iterator[Spoken]:
    """Yield audio without words, `seconds` of each of the KINDS, or of some."""
    count = int(seconds * SAMPLE_RATE)
    for name in KINDS if kinds is None else kinds:
        make = _WORDLESS[name]
        samples = make(count, np.random.default_rng(sum(name.encode())))
        yield Spoken(name, to_int16(np.clip(samples, -1, 1).astype(np.float32)), "", "English")


def _silent(count: int, _: np.random.Generator) -> Samples:
    return np.zeros(count, np.float32)


def _white(count: int, dice: np.random.Generator) -> Samples:
    return _loud(dice.standard_normal(count))


def _brown(count: int, dice: np.random.Generator) -> Samples:
    """Return brown noise, like wind or an engine."""
    spectrum = np.fft.rfft(dice.standard_normal(count))
    return _loud(np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 20), count))


def _tones(count: int, dice: np.random.Generator) -> Samples:
    """Return telephone key tones, beeps and hum, with pauses."""
    found = np.zeros(count, np.float32)
    at = 0
    while at < count:
        length = int(dice.uniform(0.1, 3.0) * SAMPLE_RATE)
        time = np.arange(min(length, count - at)) / SAMPLE_RATE
        kinds = (dice.choice(_DTMF), (dice.choice([440, 1000, 1400, 2600]),), (50, 100, 150))
        chosen = kinds[int(dice.integers(3))]
        found[at : at + length] = sum(np.sin(2 * np.pi * f * time) for f in chosen)
        at += length + int(dice.uniform(0.05, 2.0) * SAMPLE_RATE)
    return _loud(found)


def _music(count: int, _: np.random.Generator) -> Samples:
    """Return hold music, from the middle of each piece."""
    files = sorted(unpacked("asterisk-moh", _MUSIC, alone=True).rglob("*.g722"))
    each = -(-count // len(files))
    parts = []
    for file in files:
        piece = g722(file)
        middle = max(0, (len(piece) - each) // 2)
        parts.append(np.resize(piece[middle : middle + each], each))
    return _loud(np.concatenate(parts)[:count])


def _backwards(count: int, dice: np.random.Generator) -> Samples:
    return _loud(_crowd([one.pcm[::-1] for one in _voices()], count, _CROWD, dice))


_WORDLESS: dict[str, Callable[[int, np.random.Generator], Samples]] = {
    "silence": _silent,
    "white_noise": _white,
    "brown_noise": _brown,
    "tones": _tones,
    "music": _music,
    "babble": _backwards,
}
KINDS = tuple(_WORDLESS)


def _voices() -> list[Spoken]:
    return [one for name in ("people", "neural", "fr", "ru") for one in recordings(name)]


def _crowd(voices: Sequence[Int16], count: int, most: int, dice: np.random.Generator) -> Samples:
    """Return some of the voices at once, each in a loop from somewhere in it."""
    found = np.zeros(count, np.float32)
    for number in dice.choice(len(voices), min(most, len(voices)), replace=False):
        voice = _loud(to_float(voices[number]))
        found += np.resize(np.roll(voice, int(dice.integers(len(voice)))), count)
    return found


def _loud(samples: np.ndarray) -> Samples:
    found: Samples = (samples * (_LOUDNESS / (np.sqrt(np.mean(samples**2)) + 1e-9))).astype(
        np.float32
    )
    return found


def _mu_law(samples: np.ndarray) -> np.ndarray:
    """Compress to 8 bits and expand again."""
    compressed = np.sign(samples) * np.log1p(_MU * np.abs(samples)) / np.log1p(_MU)
    coded = np.round((compressed + 1) / 2 * _MU) / _MU * 2 - 1
    expanded: np.ndarray = np.sign(coded) * (np.power(1 + _MU, np.abs(coded)) - 1) / _MU
    return expanded


def _dice(spoken: Spoken) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(spoken.name.encode()[-8:]))
