"""Conversations made of synthetic voices, with the true speaker of every span."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
from scipy.signal import resample_poly

from benchmarks.people.packages import flite
from models.training.espeak import espeak

RATE = 16_000
_SECONDS = 60  # of flite, for a few sentences
FLITE_VOICES = ("kal16", "awb", "rms", "slt")
SENTENCES = (
    "The train to the coast leaves at nine in the morning from the second platform.",
    "I would like two tickets, please, and a seat near the window if there is one.",
    "We have been waiting here for more than twenty minutes, and nobody came.",
    "Could you tell me where the nearest chemist is?",
    "Yes, of course, that is what I said yesterday.",
    "There was snow on the hills all night, so the road is closed until noon.",
    "My brother works at the market on Saturdays and comes home late.",
    "I do not think so, but let us ask her again.",
    "The kitchen is too small for six people, and the table does not fit.",
    "Bring some bread and a bottle of milk on your way back from the office.",
    "It will take about an hour if the traffic is not too bad.",
    "Nobody told me that the meeting had been moved to the other building.",
)


@dataclass(frozen=True)
class Spoken:
    """A voice speaks from `start` to `end`, seconds."""

    voice: str
    start: float
    end: float


@dataclass(frozen=True)
class Mixture:
    """A conversation: 16 kHz samples, and the spans of its speakers."""

    samples: npt.NDArray[np.int16]
    truth: tuple[Spoken, ...]


class Voices:
    """Speaks sentences in espeak-ng's and flite's voices; apt-get downloads flite."""

    def __init__(self) -> None:
        """Raises NoPackages."""
        self._espeak = espeak()
        self._flite, self._environment = flite()

    def speak(self, voice: str, text: str, words_per_minute: int) -> npt.NDArray[np.float32]:
        """Return speech without silence around it; a voice of flite is `flite+NAME`."""
        kind, _, name = voice.partition("+")
        if kind == "flite":
            samples = self._by_flite(name, text, words_per_minute)
        else:
            speech = self._espeak.speak(text, voice, words_per_minute, 50, 50)
            whole = speech.samples.astype(np.float32) / 32768
            samples = resample_poly(whole, RATE, speech.rate).astype(np.float32)
        loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
        trimmed = samples[loud[0] : loud[-1] + 1]
        return np.asarray(0.1 * trimmed / np.sqrt(np.mean(trimmed**2)), dtype=np.float32)

    def _by_flite(self, name: str, text: str, words_per_minute: int) -> npt.NDArray[np.float32]:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "speech.wav"
            stretch = f"duration_stretch={150 / words_per_minute:.3f}"
            options = ["-voice", name, "--setf", stretch, "-t", text, "-o", str(out)]
            command = [str(self._flite), *options]
            subprocess.run(command, check=True, env=self._environment, timeout=_SECONDS)
            samples, rate = soundfile.read(out, dtype="float32")
        if rate != RATE:
            raise ValueError(f"flite's voice {name} has {rate} Hz, expected {RATE}")
        return np.asarray(samples, dtype=np.float32)


def converse(
    voices: Voices,
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    seconds: float,
    gap: tuple[float, float],
) -> Mixture:
    """Return a conversation of about that length, with noise 40 dB below speech.

    Between two turns there are `gap` seconds of silence; a negative gap is an overlap.
    """
    samples = np.zeros(int((seconds + 30) * RATE), dtype=np.float32)
    truth: list[Spoken] = []
    at, last = 0.5, ""
    while at < seconds:
        name = str(rng.choice([one for one in names if one != last]))
        texts = rng.choice(SENTENCES, int(rng.integers(1, 3)), replace=False)
        speech = voices.speak(name, " ".join(texts), int(rng.integers(130, 180)))
        start = int(at * RATE)
        samples[start : start + len(speech)] += speech
        truth.append(Spoken(name, start / RATE, (start + len(speech)) / RATE))
        at, last = truth[-1].end + float(rng.uniform(*gap)), name
    samples = samples[: int((max(one.end for one in truth) + 1) * RATE)]
    samples = samples + 0.001 * rng.standard_normal(len(samples)).astype(np.float32)
    return Mixture((np.clip(samples, -1, 1) * 32767).astype(np.int16), tuple(truth))
