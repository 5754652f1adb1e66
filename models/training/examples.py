"""Training examples: sentences joined, cut, mixed with noise, and given a context."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.fft import next_fast_len

from models.training.augment.surroundings import Surroundings
from models.training.corpus import SAMPLE_RATE, Corpus, Sentence
from models.training.languages import language
from models.training.mixture import Mixture
from models.training.sentences import SentenceMaker

Samples = npt.NDArray[np.float32]
# Minimum share of a word within the audio for it to be transcribed.
_HEARD = 0.75
_ONE_BY_ONE = 0.15  # of the examples consist of single words
_MIN_SAMPLES = SAMPLE_RATE // 4


@dataclass(frozen=True)
class Example:
    """With `forced`, the prompt gives the language, so its tokens are not learned.

    `language` is the name of the spoken language or, without words, of the drawn speaker's.
    """

    samples: Samples
    words: tuple[str, ...]
    context: str
    forced: bool
    language: str = "English"


class ExampleMaker:
    """Random examples from a corpus; the seed fixes the sequence.

    `surroundings` adds rooms and lines.
    """

    def __init__(
        self, corpus: Corpus | Mixture, seed: int, surroundings: Surroundings | None = None
    ) -> None:
        self._corpus, self._surroundings = corpus, surroundings
        self._dice = random.Random(seed)
        self._noise = np.random.default_rng(seed)
        self._sentences = {code: SentenceMaker(seed, code) for code in corpus.languages}
        # Separate generators: a corpus of one language, or without single words, gives the same
        # examples as before these features existed.
        self._languages = random.Random(f"languages {seed}")
        self._alone = random.Random(f"alone {seed}")

    def make(self, seconds: float) -> Example:
        """One example of about `seconds` (never longer)."""
        if self._dice.random() < 0.06:
            return self.without_words(seconds)
        speaker = self._corpus.speaker(self._dice)
        audio, words, ends, starts = self._join(speaker, seconds + 2.0)
        begin = self._begin(starts, len(audio) - int(seconds * SAMPLE_RATE))
        audio = audio[begin : begin + int(seconds * SAMPLE_RATE)]
        heard = tuple(
            word
            for word, start, end in zip(words, starts, ends, strict=True)
            if start >= begin - 1 and begin + len(audio) >= start + _HEARD * (end - start)
        )
        context = self._context(speaker)
        return Example(
            self._colour(audio), heard, context, self._dice.random() < 0.2, _spoken_by(speaker)
        )

    def _begin(self, starts: list[int], latest: int) -> int:
        """Usually the start; sometimes another word's start, as after a segment cut."""
        if self._dice.random() < 0.6:
            return 0
        candidates = [s for s in starts if s <= latest]
        return self._dice.choice(candidates) if candidates else 0

    def _join(
        self, speaker: list[Sentence], seconds: float
    ) -> tuple[Samples, list[str], list[int], list[int]]:
        """Sentences of one speaker with pauses; word starts and ends in samples."""
        parts: list[Samples] = []
        words: list[str] = []
        ends: list[int] = []
        starts: list[int] = []
        at = 0
        short = self._dice.random() < 0.3  # ends with silence instead of being cut
        limit = int(seconds * SAMPLE_RATE * (0.6 if short else 1.0))
        if self._alone.random() < _ONE_BY_ONE:
            speaker = self._corpus.words(self._alone, speaker[0].language) or speaker
        order = self._dice.sample(speaker, len(speaker))
        index = 0
        while at < limit:
            sentence = order[index % len(order)]
            index += 1
            pause = int(
                self._dice.choice([0.03, 0.2, 0.4, 0.8])
                * self._dice.uniform(0.3, 1.5)
                * SAMPLE_RATE
            )
            parts.append(np.zeros(pause, np.float32))
            at += pause
            speech = self._corpus.audio(sentence)
            start = at
            for word, end in zip(sentence.words, sentence.word_ends, strict=True):
                words.append(word)
                starts.append(start)
                start = at + int(end * SAMPLE_RATE)
                ends.append(start)
            parts.append(speech)
            at += len(speech)
        if short:
            parts.append(np.zeros(int(seconds * SAMPLE_RATE), np.float32))
        return np.concatenate(parts), words, ends, starts

    def _context(self, speaker: list[Sentence]) -> str:
        kind = self._dice.random()
        if kind < 0.45:
            return ""
        if kind < 0.85:
            chosen = self._dice.sample(speaker, self._dice.randint(1, 3))
            return " ".join(" ".join(s.words) for s in chosen)
        # In any language, so that the language is detected from the audio and not from the context.
        code = self._languages.choice(self._corpus.languages)
        return self._sentences[code].word_list(self._dice.randint(1, 12))

    def _colour(self, audio: Samples) -> Samples:
        """Apply a room, loudness, background noise and a line."""
        if self._surroundings:
            audio = self._surroundings.room(audio)
        level = 10 ** (self._dice.uniform(-38, 0) / 20)
        audio = audio * (level / max(float(np.abs(audio).max()), 1e-4))
        if self._dice.random() < 0.5:
            snr = self._dice.uniform(10, 45)
            power = float(np.sqrt(np.mean(audio**2))) + 1e-6
            audio = audio + self._background(len(audio)) * power * 10 ** (-snr / 20)
        if self._surroundings:
            audio = self._surroundings.line(audio)
        return np.clip(audio, -1, 1).astype(np.float32)

    def _background(self, count: int) -> Samples:
        """Noise of unit RMS: white, pink-like, a tune, or hum."""
        kind = self._dice.random()
        if kind < 0.7:
            size = next_fast_len(count, real=True)
            spectrum = np.fft.rfft(self._noise.standard_normal(size, np.float32))
            slope = self._dice.choice([0.0, 0.5, 1.0])
            spectrum /= np.maximum(np.arange(len(spectrum), dtype=np.float32), 1) ** slope
            noise = np.fft.irfft(spectrum, size)[:count]
        elif kind < 0.85:
            noise = self._tune(count)
        else:
            base = self._dice.choice([50, 60, 100, 120, 220, 440]) * self._dice.uniform(0.9, 1.1)
            time = np.arange(count) / SAMPLE_RATE
            noise = sum(
                np.sin(2 * np.pi * base * k * time + self._dice.random() * 6) / k
                for k in range(1, self._dice.randint(2, 5))
            )
        return (noise / (np.sqrt(np.mean(noise**2)) + 1e-9)).astype(np.float32)

    def _tune(self, count: int) -> Samples:
        """Chords with decaying notes, like music on hold."""
        tune = np.zeros(count, np.float32)
        length = int(self._dice.uniform(0.15, 0.8) * SAMPLE_RATE)
        time = np.arange(length) / SAMPLE_RATE
        envelope = np.exp(-time * self._dice.uniform(0.5, 6.0))
        for at in range(0, count, length):
            root = 110.0 * 2 ** (self._dice.randint(0, 36) / 12)
            steps = self._dice.sample([0, 3, 4, 7, 10, 12], self._dice.randint(1, 4))
            chord = sum(np.sin(2 * np.pi * root * 2 ** (s / 12) * time) for s in steps)
            tune[at : at + length] = (chord * envelope)[: count - at]
        return tune

    def without_words(self, seconds: float) -> Example:
        """Silence, noise, a tune or hum."""
        count = max(int(seconds * SAMPLE_RATE), _MIN_SAMPLES)
        kind = self._dice.random()
        audio = np.zeros(count, np.float32)
        if kind > 0.25:
            audio = self._background(count) * 10 ** (self._dice.uniform(-80, -15) / 20)
        speaker = self._corpus.speaker(self._dice)
        context = self._context(speaker)
        return Example(
            np.clip(audio, -1, 1).astype(np.float32),
            (),
            context,
            self._dice.random() < 0.5,
            _spoken_by(speaker),
        )


def _spoken_by(speaker: list[Sentence]) -> str:
    return language(speaker[0].language).name
