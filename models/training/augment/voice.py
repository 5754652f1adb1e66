"""Another speaker from the same samples: changes of tempo, pitch and vocal tract length.

Each function is pure. It takes float32 samples at 16 kHz and a factor, which is 1 for no change.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

from models.training.augment.length import fitted

Samples = npt.NDArray[np.float32]
_FRAME, _HOP = 512, 128
_WINDOW = np.hanning(_FRAME + 1)[:-1].astype(np.float32)
_SCALE = float((_WINDOW**2).sum() / _HOP)
_ENVELOPE = 40  # cepstral coefficients that form the spectral envelope
_STEP, _SEARCH = _FRAME // 2, 160  # for changes of tempo, in samples
_RATE = 16_000


class Shape(NamedTuple):
    """Factors of tempo, pitch and formants."""

    tempo: float = 1.0
    pitch: float = 1.0
    formants: float = 1.0


def drawn(dice: random.Random) -> Shape:
    """Return a random shape: unchanged in one case of four, otherwise between giant and child."""
    if dice.random() < 0.25:
        return Shape()
    pitch = 2 ** (dice.uniform(-4, 4) / 12)
    return Shape(dice.uniform(0.85, 1.25), pitch, dice.uniform(0.87, 1.15))


def shaped(samples: Samples, shape: Shape) -> Samples:
    """Return the samples in another voice; their duration is divided by `shape.tempo`."""
    if shape.pitch != 1:
        samples = change_pitch(samples, shape.pitch)
    if shape.formants != 1:
        samples = change_formants(samples, shape.formants)
    return change_tempo(samples, shape.tempo)


def change_tempo(samples: Samples, factor: float) -> Samples:
    """Return the samples `factor` times as fast, at the same pitch (WSOLA).

    Pieces are placed at the new tempo; each is taken from where it best continues the previous one.
    """
    if factor == 1:
        return samples
    padded = np.pad(samples, (_SEARCH, _FRAME + 2 * _SEARCH))
    count = round(len(samples) / factor)
    out = np.zeros(count + 2 * _FRAME, np.float32)
    follows = _SEARCH
    for to in range(0, count + _STEP, _STEP):
        middle = min(round(to * factor), len(samples))
        best = middle + _SEARCH
        if to:
            follows = min(follows, len(padded) - _FRAME)
            near = padded[middle : middle + 2 * _SEARCH + _FRAME]
            best = middle + _likest(near, padded[follows : follows + _FRAME])
        piece = padded[best : best + _FRAME]
        out[to : to + len(piece)] += (piece * _WINDOW)[: len(out) - to]
        follows = best + _STEP
    out[:_STEP] /= np.maximum(_WINDOW[:_STEP], 0.01)
    return out[:count]


def _likest(near: Samples, piece: Samples) -> int:
    """Return the position in `near` where the piece fits best, regardless of level."""
    sums = np.concatenate([[0.0], np.cumsum(near.astype(np.float64) ** 2)])
    energy = sums[len(piece) :] - sums[: -len(piece)]
    return int(np.argmax(np.correlate(near, piece, "valid") / np.sqrt(energy + 1e-6)))


def change_pitch(samples: Samples, factor: float) -> Samples:
    """Return the samples with `factor` times the pitch, the same tempo and the same formants."""
    longer = change_tempo(samples, 1 / factor)
    higher = soxr.resample(longer, _RATE * factor, _RATE).astype(np.float32)
    return fitted(change_formants(higher, 1 / factor), len(samples))


def change_formants(samples: Samples, factor: float) -> Samples:
    """Return the samples with the spectral envelope stretched, as by a shorter vocal tract.

    The harmonics are unchanged. The lowest `_ENVELOPE` cepstral coefficients form the envelope.
    """
    spectra = _spectra(samples)
    logs = np.log(np.abs(spectra) + 1e-5)
    cepstra = np.fft.irfft(logs, axis=1)
    cepstra[:, _ENVELOPE : _FRAME - _ENVELOPE + 1] = 0
    envelope = np.fft.rfft(cepstra, axis=1).real
    bins = np.arange(spectra.shape[1])
    from_ = np.minimum(bins / factor, len(bins) - 1)
    low = np.minimum(from_.astype(int), len(bins) - 2)
    share = from_ - low
    stretched = (1 - share) * envelope[:, low] + share * envelope[:, low + 1]
    return _samples(spectra * np.exp(stretched - envelope), len(samples))


def _spectra(samples: Samples) -> npt.NDArray[np.complex64]:
    """Return (frames, bins); the first frame is centred on the first sample."""
    padded = np.pad(samples, (_FRAME // 2, _FRAME + _HOP))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[::_HOP]
    return np.fft.rfft(frames * _WINDOW, axis=1).astype(np.complex64)


def _samples(spectra: npt.NDArray[np.complexfloating], count: int) -> Samples:
    """Return `count` samples of overlapping frames."""
    frames = (np.fft.irfft(spectra, axis=1) * _WINDOW / _SCALE).astype(np.float32)
    parts = _FRAME // _HOP
    out = np.zeros((len(frames) + parts - 1, _HOP), np.float32)
    for part in range(parts):
        out[part : part + len(frames)] += frames[:, part * _HOP : (part + 1) * _HOP]
    return fitted(out.ravel()[_FRAME // 2 :], count)
