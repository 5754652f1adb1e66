"""The audio of the sessions: recordings of people, synthetic speech, and audio without words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.load.plan import Planner, Plans, SessionPlan, SpeechStyle
from benchmarks.real_speech import conditions, corpus
from benchmarks.real_speech.corpus import SAMPLE_RATE, Spoken
from benchmarks.real_speech.live import speech
from benchmarks.real_speech.units import limited
from benchmarks.speech import Word

_AFTER = 0.1  # s of a recording after its speech: the speaker stops at once
_GAINS = (0.6, 0.95)
# Without the crowd, which needs the voices of all languages.
KINDS_WITHOUT_WORDS = ("silence", "white_noise", "brown_noise", "tones", "music")
_SYNTHETIC = SpeechStyle((10.0, 40.0))


class Recordings:
    """Sessions of some recordings in turns, each louder or softer than before.

    No two sessions have the same samples, so a cache by content finds nothing.
    """

    def __init__(self, recordings: Sequence[Spoken], seed: int) -> None:
        self._recordings, self._dice = recordings, np.random.default_rng(seed)
        self._made = 0
        self.mean_seconds = sum(one.seconds for one in recordings) / len(recordings)

    def next(self) -> SessionPlan:
        """Return the plan of another session."""
        one = self._recordings[self._made % len(self._recordings)]
        self._made += 1
        gain = np.float32(self._dice.uniform(*_GAINS))
        onset, end = speech(one.pcm)
        pcm = one.pcm[: int((end + _AFTER) * SAMPLE_RATE)] if one.text else one.pcm
        nowhere = float("nan")  # when a word is spoken is not known
        return SessionPlan(
            f"{one.name}/{self._made}",
            (pcm * gain).astype(np.int16),
            tuple(Word(word, nowhere, nowhere) for word in one.text.split()),
            ((onset, end),),
        )


def recordings(model: str, minutes: float) -> list[Spoken]:
    """Return the recordings that a model's servers transcribe whole, about `minutes` of them.

    Models of random weights and the demo model do not know ordinary words: theirs are synthetic.
    """
    if model.startswith("whisper"):
        known: Sequence[Spoken] = corpus.recordings("people")
    else:
        planner = Planner(_SYNTHETIC, seed=1)
        plans = (planner.next() for _ in range(round(minutes * 60 / _SYNTHETIC.mean_seconds) or 1))
        known = [Spoken(plan.name, plan.pcm, plan.text, "English") for plan in plans]
    return limited(known, minutes * 60)


def sessions(model: str, some: Sequence[Spoken], seed: int) -> Plans:
    """Return an endless supply of sessions for a model."""
    return Recordings(some, seed) if model.startswith("whisper") else Planner(_SYNTHETIC, seed)


def wordless(seconds: float) -> list[Spoken]:
    """Return `seconds` of each of KINDS_WITHOUT_WORDS."""
    return list(conditions.without_words(seconds, KINDS_WITHOUT_WORDS))
