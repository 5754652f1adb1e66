"""Recordings for benchmarks: synthetic speech with known words and times, and audio without."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.training.corpus import SAMPLE_RATE, Corpus, Sentence
from models.training.examples import ExampleMaker

Samples = npt.NDArray[np.float32]
_NOISE_DBFS = -60.0


@dataclass(frozen=True)
class Word:
    """One word and when it is spoken, in seconds of its recording."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Recording:
    """16 kHz mono; `sentences` are (onset, offset) of each, in seconds, by its energy."""

    samples: Samples
    words: tuple[Word, ...]
    sentences: tuple[tuple[float, float], ...]

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.samples) / SAMPLE_RATE

    @property
    def text(self) -> str:
        """The spoken words."""
        return " ".join(word.text for word in self.words)


def spoken(
    corpus: Corpus, dice: random.Random, seconds: float, pauses: tuple[float, float]
) -> Recording:
    """Return sentences of one speaker, with `pauses` between them, and faint noise."""
    speaker = dice.choice(corpus.speakers)
    parts: list[Samples] = [np.zeros(SAMPLE_RATE // 2, np.float32)]
    words: list[Word] = []
    sentences: list[tuple[float, float]] = []
    at = len(parts[0])
    while at < seconds * SAMPLE_RATE:
        sentence = dice.choice(speaker)
        speech = corpus.audio(sentence)
        words += _words(sentence, at / SAMPLE_RATE)
        first, last = _audible(speech)
        sentences.append(((at + first) / SAMPLE_RATE, (at + last) / SAMPLE_RATE))
        pause = np.zeros(int(dice.uniform(*pauses) * SAMPLE_RATE), np.float32)
        parts += [speech, pause]
        at += len(speech) + len(pause)
    audio = np.concatenate(parts)
    noise = np.random.default_rng(dice.randrange(1 << 30)).standard_normal(len(audio))
    audio = audio + (10 ** (_NOISE_DBFS / 20) * noise).astype(np.float32)
    return Recording(np.clip(audio, -1, 1), tuple(words), tuple(sentences))


def at_level(samples: Samples, dbfs: float) -> Samples:
    """Scaled to an RMS of `dbfs` where it is louder than a hundredth of its peak."""
    loud = samples[np.abs(samples) > np.abs(samples).max() / 100]
    scale = 10 ** (dbfs / 20) / float(np.sqrt(np.mean(loud**2)))
    return np.clip(samples * scale, -1, 1).astype(np.float32)


def without_words(corpus: Corpus, seconds: float, count: int) -> list[Samples]:
    """Silence, noise, hum and tunes, as `models.training` makes them, from another seed."""
    maker = ExampleMaker(corpus, seed=77)
    return [maker.without_words(seconds).samples for _ in range(count)]


def _words(sentence: Sentence, offset: float) -> list[Word]:
    starts = [0.0, *sentence.word_ends[:-1]]
    return [
        Word(word, offset + start, offset + end)
        for word, start, end in zip(sentence.words, starts, sentence.word_ends, strict=True)
    ]


def _audible(speech: Samples) -> tuple[int, int]:
    """First and last sample within 34 dB of the loudest 10 ms."""
    energy = np.sqrt(np.convolve(speech**2, np.ones(160) / 160, "same"))
    loud = np.flatnonzero(energy > energy.max() / 50)
    return int(loud[0]), int(loud[-1])
