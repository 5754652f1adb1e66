"""Conversations of speakers in turns, each in one of several languages."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import Float32
from models.training.corpus import Corpus
from models.training.languages import language

_TURNS = 5
_PAUSES = (0.9, 1.6)  # s; long enough to end a segment
_NOISE_DBFS = -50


@dataclass(frozen=True)
class Turn:
    """The speech of one speaker: start and end (s), the name of its language, and its text."""

    start: float
    end: float
    language: str
    text: str


@dataclass(frozen=True)
class Case:
    """A recording at 16 kHz, and the names of its spoken languages."""

    samples: Float32
    turns: tuple[Turn, ...]
    languages: tuple[str, ...]


def cases(count: int, spoken: Mapping[str, Corpus], seed: int = 23) -> list[Case]:
    """Return `count` cases of one language and of two by turns, from sets by language code."""
    dice = random.Random(seed)
    return [_case(dice, spoken, dice.sample(sorted(spoken), 1 + i % 2)) for i in range(count)]


def _case(dice: random.Random, spoken: Mapping[str, Corpus], codes: list[str]) -> Case:
    parts = [np.zeros(SAMPLE_RATE // 2, np.float32)]
    turns, at = [], len(parts[0])
    # Each language is spoken at least once.
    for code in dice.sample([*codes, *dice.choices(codes, k=_TURNS - len(codes))], _TURNS):
        sentence = dice.choice(spoken[code].sentences)
        speech = spoken[code].audio(sentence)
        begin, at = at, at + len(speech)
        text = " ".join(sentence.words)
        turns.append(Turn(begin / SAMPLE_RATE, at / SAMPLE_RATE, language(code).name, text))
        pause = np.zeros(int(dice.uniform(*_PAUSES) * SAMPLE_RATE), np.float32)
        parts += [speech, pause]
        at += len(pause)
    audio = np.concatenate(parts)
    noise = np.random.default_rng(dice.randrange(1 << 30)).standard_normal(len(audio))
    audio += (10 ** (_NOISE_DBFS / 20) * noise).astype(np.float32)
    names = tuple(language(code).name for code in codes)
    return Case(np.clip(audio, -1, 1), tuple(turns), names)
