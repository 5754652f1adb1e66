"""Plans the speech of sessions: unique to each session, with known words and times."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auricle.audio.pcm import Int16, to_int16
from benchmarks.prepared import corpus
from benchmarks.speech import Word, spoken
from models.training.corpus import SAMPLE_RATE

# Users take a moment to push "stop", but less than an endpoint needs (500 ms).
_SILENCE_BEFORE_STOP = 0.2


@dataclass(frozen=True)
class SpeechStyle:
    """Lengths of sessions and of the pauses between sentences, in seconds."""

    seconds: tuple[float, float] = (5.0, 60.0)
    pauses: tuple[float, float] = (0.1, 1.2)

    @property
    def mean_seconds(self) -> float:
        """The mean length of a session."""
        return sum(self.seconds) / 2


@dataclass(frozen=True)
class SessionPlan:
    """One session: 16 kHz mono samples; words and stretches of speech in seconds."""

    name: str
    pcm: Int16
    words: tuple[Word, ...]
    speech: tuple[tuple[float, float], ...]

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.pcm) / SAMPLE_RATE

    @property
    def text(self) -> str:
        """The text of the speech."""
        return " ".join(word.text for word in self.words)


class Plans(Protocol):
    """An endless supply of sessions, whose mean length is known."""

    @property
    def mean_seconds(self) -> float:
        """The mean length of a session."""

    def next(self) -> SessionPlan:
        """Return the plan of another session."""


class Planner:
    """Plans of one run. The same seed gives the same sessions; no two are alike.

    Sentences may repeat, but each session has its own speaker, gain and noise, so that a cache that
    is keyed by content never finds an entry of another session.
    """

    def __init__(self, style: SpeechStyle, seed: int) -> None:
        self.style, self._seed = style, seed
        self._corpus = corpus("seen")
        self._made = 0

    @property
    def mean_seconds(self) -> float:
        """The mean length of a session."""
        return self.style.mean_seconds

    def next(self) -> SessionPlan:
        """Return the plan of another session."""
        self._made += 1
        dice = random.Random(f"{self._seed}/{self._made}")
        wanted = dice.uniform(*self.style.seconds)
        recording = spoken(self._corpus, dice, wanted, self.style.pauses)
        gain = np.float32(dice.uniform(0.5, 0.95))
        end = min(recording.seconds, recording.sentences[-1][1] + _SILENCE_BEFORE_STOP)
        kept = [s for s in recording.sentences if s[1] <= wanted + 1.0] or recording.sentences[:1]
        end = min(end, kept[-1][1] + _SILENCE_BEFORE_STOP)
        return SessionPlan(
            name=f"{self._seed}-{self._made}",
            pcm=to_int16(recording.samples[: round(end * SAMPLE_RATE)] * gain),
            words=tuple(word for word in recording.words if word.end <= end),
            speech=tuple(kept),
        )
