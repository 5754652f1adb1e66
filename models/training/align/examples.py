"""Examples for the aligner: speech, its words (some misrecognised) and their times."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.training.corpus import SAMPLE_RATE, Corpus, Sentence
from models.training.examples import ExampleMaker, Samples
from models.training.sentences import vocabulary
from models.training.spans import Span

# Minimum share of a word within the clip for it to count as spoken.
_HEARD = 0.75
# Simulated recogniser errors: share of examples with errors; of words replaced, and dropped.
_MISHEARD_EXAMPLES, _MISHEARD_WORDS, _MISSED_WORDS = 0.3, 0.08, 0.03
SHORTEST = 1.5  # clip (s) to train with


@dataclass(frozen=True)
class Spoken:
    """A word, and when it begins and ends in its clip (s)."""

    word: str
    span: Span


@dataclass(frozen=True)
class Clip:
    """`said` are the spoken words; `words`, the aligner's input, may have a recogniser's errors."""

    samples: Samples
    words: tuple[Spoken, ...]
    said: tuple[Spoken, ...]


class ClipMaker(ExampleMaker):
    """Random clips from a corpus; the seed fixes the sequence."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        super().__init__(corpus, seed)
        self.seed = seed
        self._vocabulary = vocabulary()

    def clip(self, seconds: float, *, whole: bool = False) -> Clip:
        """One clip of `seconds`, or shorter if the speech ends earlier.

        It may end in the middle of a word; a `whole` clip ends after a sentence.
        """
        audio, said = self._row(seconds, whole=whole)
        audio = audio[: int(seconds * SAMPLE_RATE)]
        heard = tuple(cut for word in said if (cut := _cut(word, len(audio) / SAMPLE_RATE)))
        return Clip(self._colour(audio), self._misheard(heard), heard)

    def _row(self, seconds: float, *, whole: bool) -> tuple[Samples, list[Spoken]]:
        """Sentences with pauses up to at least `seconds`, or one sentence fewer (`whole`)."""
        parts, said, at = [], [], 0
        # A third of the clips end with silence instead of in the middle of a sentence.
        limit = seconds * (self._dice.uniform(0.5, 0.9) if self._dice.random() < 0.35 else 1.0)
        for sentence in self._sentences_without_end():
            pause = int(self._pause() * SAMPLE_RATE)
            speech = self._corpus.audio(sentence)
            if whole and parts and at + pause + len(speech) > seconds * SAMPLE_RATE:
                break
            parts += [np.zeros(pause, np.float32), speech]
            begin = (at + pause) / SAMPLE_RATE
            said += [
                Spoken(word, _later(span, begin))
                for word, span in zip(sentence.words, sentence.spans, strict=True)
            ]
            at += pause + len(speech)
            if at >= limit * SAMPLE_RATE:
                break
        parts.append(np.zeros(int(self._dice.uniform(0.0, 1.5) * SAMPLE_RATE), np.float32))
        return np.concatenate(parts), said

    def _sentences_without_end(self) -> Iterator[Sentence]:
        """Sentences of one speaker, then of another; a clip rarely repeats a sentence."""
        first = True
        while True:
            speaker = self._dice.choice(self._corpus.speakers)
            order = self._dice.sample(speaker, len(speaker))
            # Most clips begin partway through a speaker's sentences.
            yield from order[self._dice.randrange(len(order)) if first else 0 :]
            first = False

    def _pause(self) -> float:
        return self._dice.choice([0.03, 0.2, 0.4, 0.8]) * self._dice.uniform(0.3, 1.5)

    def _misheard(self, said: tuple[Spoken, ...]) -> tuple[Spoken, ...]:
        if self._dice.random() > _MISHEARD_EXAMPLES:
            return said
        kept = [word for word in said if self._dice.random() > _MISSED_WORDS] or list(said)
        return tuple(
            Spoken(self._dice.choice(self._vocabulary), word.span)
            if self._dice.random() < _MISHEARD_WORDS
            else word
            for word in kept
        )


def _later(span: Span, begin: float) -> Span:
    start, end = (None if time is None else time + begin for time in span)
    return Span(start, end)


def _cut(word: Spoken, end: float) -> Spoken | None:
    """The word in a clip that ends at `end`; None if too little of it is left.

    If one of its times is unknown, the word is kept if the other lies in the clip.
    """
    start, stop = word.span
    if start is not None and stop is not None:
        if start + _HEARD * (stop - start) > end:
            return None
    elif (start if stop is None else stop) is None or (start or stop or 0.0) > end:
        return None
    return Spoken(word.word, Span(start, None if stop is None else min(stop, end)))


def batches(
    maker: ClipMaker, dice: random.Random, lengths: tuple[float, float], seconds: float
) -> list[Clip]:
    """Clips of similar length within `lengths` (s), together about `seconds`."""
    target = math.exp(dice.uniform(*map(math.log, lengths)))
    count = max(1, min(24, round(seconds / target)))
    clips = [maker.clip(target * dice.uniform(0.85, 1.0)) for _ in range(count)]
    return [clip for clip in clips if clip.words]
