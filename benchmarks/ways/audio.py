"""Recordings for all ways: speech with known words, from 5 s to 20 min, and audio without words."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.prepared import ROOT, corpus
from benchmarks.speech import Recording, spoken, without_words
from models.training.corpus import SAMPLE_RATE, Corpus, synthesise
from models.training.sentences import SentenceMaker
from models.training.voices import UNSEEN_VOICES

CORPUS = ROOT / "build/demo-corpus"
_LISTS = 400
_PAUSES = (0.05, 1.2)  # some end a segment, some do not
# Realtime sessions detect the end of the last turn by the silence after it.
_SILENCE_AFTER = np.zeros(int(1.5 * SAMPLE_RATE), np.float32)
_VERY_LONG_SECONDS = 600
Lengths = tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Scale:
    """`lengths` are (recordings, shortest, longest), in seconds. Half are word lists.

    `wordless` recordings of silence, noise, hum and tunes have `wordless_seconds` each.
    """

    lengths: Lengths
    wordless: int
    wordless_seconds: float


SCALES = {
    "full": Scale(((220, 5, 30), (40, 30, 90), (10, 90, 300), (2, 1200, 1200)), 40, 30.0),
    "quick": Scale(((24, 5, 20), (4, 30, 60), (1, 150, 150)), 6, 15.0),
    "smoke": Scale(((2, 5, 6),), 2, 5.0),
}


def spoken_recordings(scale: Scale, seed: int = 41) -> list[Recording]:
    """Seen and unseen voices with the grammar's sentences, and unseen ones with word lists.

    Any number of first recordings has the same mix of lengths and kinds, but the very long ones
    come last.
    """
    dice = random.Random(seed)
    lists = word_lists(CORPUS)
    kinds = (corpus("seen"), lists, corpus("unseen"), lists)
    made: list[tuple[float, Recording]] = []
    for count, shortest, longest in scale.lengths:
        for number in range(count):
            seconds = dice.uniform(shortest, longest)
            recording = spoken(kinds[len(made) % 4], dice, seconds, _PAUSES)
            place = (number + 0.5) / count + (longest > _VERY_LONG_SECONDS)
            made.append((place, _with_silence(recording)))
    return [recording for _, recording in sorted(made, key=lambda one: one[0])]


def wordless_recordings(scale: Scale) -> list[Recording]:
    """Recordings without speech."""
    silent = without_words(corpus("seen"), scale.wordless_seconds, scale.wordless)
    return [Recording(samples, (), ()) for samples in silent]


def word_lists(directory: Path) -> Corpus:
    """Return words in random order, in unseen voices; synthesised at the first use."""
    maker, dice = SentenceMaker(seed=77), random.Random(3)
    texts = [maker.word_list(dice.randint(2, 9)) for _ in range(_LISTS)]
    synthesise(directory, "lists", UNSEEN_VOICES, texts, seed=6)
    return Corpus(directory, "lists")


def _with_silence(recording: Recording) -> Recording:
    return replace(recording, samples=np.concatenate([recording.samples, _SILENCE_AFTER]))
