"""Synthetic speech on disk: one int16 file of 16 kHz sentences and an index.

    python -m models.training.corpus DIR [--sentences N] [--held-out]

makes the three sets `train`, `seen` (held-out sentences, training voices) and
`unseen` (held-out sentences, held-out voices). Existing sets are kept. `--held-out`
leaves out `train`; the other two have the same sentences with it and without.
"""

from __future__ import annotations

import argparse
import json
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from auricle.audio.decode import resample
from auricle.audio.pcm import to_float, to_int16
from models.training.espeak import Espeak, Speech
from models.training.sentences import SentenceMaker
from models.training.spans import Span
from models.training.voices import TRAIN_VOICES, UNSEEN_VOICES

SAMPLE_RATE = 16_000
_SENTENCES_PER_VOICE = 8
_HELD_OUT_SENTENCES = 800
TRAINING_SENTENCES = 24_000


@dataclass(frozen=True)
class Sentence:
    """One spoken sentence: where its samples lie, its words, when each word ends (s).

    `word_ends` and `spans` are those of `espeak.Speech`.
    """

    start: int
    length: int
    voice: str
    words: tuple[str, ...]
    word_ends: tuple[float, ...]
    spans: tuple[Span, ...]


class Corpus:
    """Sentences of one set, grouped by speaker; memory-mapped, or read at once (`loaded`)."""

    def __init__(self, directory: Path, name: str, *, loaded: bool = False) -> None:
        path = directory / f"{name}.pcm"
        self._samples = np.fromfile(path, np.int16) if loaded else np.memmap(path, np.int16, "r")
        rows = json.loads((directory / f"{name}.json").read_text())
        self.sentences = [_sentence(row) for row in rows]
        self.speakers: list[list[Sentence]] = []
        for at in range(0, len(self.sentences), _SENTENCES_PER_VOICE):
            self.speakers.append(self.sentences[at : at + _SENTENCES_PER_VOICE])

    def audio(self, sentence: Sentence) -> npt.NDArray[np.float32]:
        """float32 samples in [-1, 1]."""
        block = self._samples[sentence.start : sentence.start + sentence.length]
        return block.astype(np.float32) / 32768.0


def _sentence(row: list[Any]) -> Sentence:
    """Raises ValueError for an index that an earlier version wrote, without spans."""
    if len(row) != 6:
        raise ValueError("this corpus has no word spans: remove its folder, then make it anew")
    start, length, voice, text, ends, spoken = row
    spans = tuple(Span(*span) for span in spoken)
    return Sentence(start, length, voice, tuple(text.split()), tuple(ends), spans)


@lru_cache(maxsize=1)
def _engine() -> Espeak:
    """One per process: espeak-ng cannot be initialised twice."""
    return Espeak()


def _speak_group(job: tuple[str, int, list[str]]) -> list[tuple[bytes, str, str, Speech]]:
    """One speaker (voice, speed, pitch) says some sentences."""
    voice, seed, texts = job
    dice = random.Random(seed)
    speed, pitch, spread = dice.randint(120, 200), dice.randint(25, 75), dice.randint(30, 70)
    engine = _engine()
    spoken = []
    for text in texts:
        speech = engine.speak(text, voice, speed, pitch, spread)
        # Of int16 soxr would make other samples each time, by dither.
        audio = to_int16(resample(to_float(speech.samples), speech.rate))
        spoken.append((audio.tobytes(), voice, text, replace(speech, samples=audio[:0])))
    return spoken


def synthesise(
    directory: Path, name: str, voices: tuple[str, ...], texts: list[str], seed: int
) -> None:
    """Write `name`.pcm and `name`.json unless they exist."""
    if (directory / f"{name}.json").exists():
        return
    dice = random.Random(seed)
    jobs = [
        (dice.choice(voices), dice.getrandbits(32), texts[at : at + _SENTENCES_PER_VOICE])
        for at in range(0, len(texts), _SENTENCES_PER_VOICE)
    ]
    rows, start = [], 0
    with ProcessPoolExecutor(2) as pool, (directory / f"{name}.pcm").open("wb") as out:
        for spoken in pool.map(_speak_group, jobs, chunksize=8):
            for audio, voice, text, speech in spoken:
                out.write(audio)
                ends = [round(end, 3) for end in speech.word_ends_seconds]
                spans = [(span.start, span.end) for span in speech.spans]
                rows.append((start, len(audio) // 2, voice, text, ends, spans))
                start += len(audio) // 2
    (directory / f"{name}.json").write_text(json.dumps(rows))
    print(f"{name}: {len(rows)} sentences, {start / SAMPLE_RATE / 3600:.2f} hours")


def texts(sentences: int) -> tuple[list[str], list[str]]:
    """Return `sentences` to train with, and those of both held-out sets, which are not in them."""
    train_maker = SentenceMaker(seed=1)
    train = [train_maker.sentence() for _ in range(sentences)]
    known, held_out, maker = set(train), [], SentenceMaker(seed=2)
    while len(held_out) < 2 * _HELD_OUT_SENTENCES:
        if (text := maker.sentence()) not in known:
            held_out.append(text)
    return train, held_out


def make(directory: Path, sentences: int = TRAINING_SENTENCES, *, held_out_only: bool) -> None:
    """All three sets, or the two held-out ones, whose sentences do not occur in training."""
    directory.mkdir(parents=True, exist_ok=True)
    train, held_out = texts(sentences)
    if not held_out_only:
        synthesise(directory, "train", TRAIN_VOICES, train, seed=3)
    synthesise(directory, "seen", TRAIN_VOICES, held_out[:_HELD_OUT_SENTENCES], seed=4)
    synthesise(directory, "unseen", UNSEEN_VOICES, held_out[_HELD_OUT_SENTENCES:], seed=5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sentences", type=int, default=TRAINING_SENTENCES)
    parser.add_argument("--held-out", action="store_true", help="without the training set")
    arguments = parser.parse_args()
    make(arguments.directory, arguments.sentences, held_out_only=arguments.held_out)
