"""Synthetic speech on disk: one int16 file of 16 kHz sentences and an index.

    python -m models.training.corpus DIR [--languages en,de,es] [--sentences N] [--held-out]

makes the three sets `train`, `seen` (held-out sentences, training voices) and
`unseen` (held-out sentences, held-out voices) of each language: English in `train.pcm`,
German in `train-de.pcm`. Existing sets are kept. `--held-out` omits `train`; the
other two sets are the same with it and without it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from auricle.audio.decode import resample
from auricle.audio.pcm import to_float, to_int16
from models.training.espeak import Speech, espeak
from models.training.languages import DEFAULT, chosen
from models.training.sentences import SentenceMaker
from models.training.spans import Span
from models.training.voices import train_voices, unseen_voices

SAMPLE_RATE = 16_000
SENTENCES_PER_VOICE = 8
_HELD_OUT_SENTENCES = 800
TRAINING_SENTENCES = 24_000


@dataclass(frozen=True)
class Sentence:
    """One spoken sentence: the position of its samples, its words, and the end of each (s).

    `word_ends` and `spans` are as in `espeak.Speech`. `language` is the code of the voice's
    language, `of` the name of the set.
    """

    start: int
    length: int
    voice: str
    words: tuple[str, ...]
    word_ends: tuple[float, ...]
    spans: tuple[Span, ...]
    language: str = DEFAULT
    of: str = ""


class Corpus:
    """Sentences of one set in some languages, grouped by speaker.

    Memory-mapped, or read at once (`loaded`). A speaker has one language.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        languages: Sequence[str] = (DEFAULT,),
        loaded: bool = False,
    ) -> None:
        self.languages = tuple(languages)
        self._samples: dict[str, npt.NDArray[np.int16]] = {}
        self.sentences: list[Sentence] = []
        self.speakers: list[list[Sentence]] = []
        for code in languages:
            stem = directory / set_name(name, code)
            path = stem.with_suffix(".pcm")
            read = np.fromfile(path, np.int16) if loaded else np.memmap(path, np.int16, "r")
            self._samples[code] = read
            rows = json.loads(stem.with_suffix(".json").read_text())
            said = [_sentence(row, code, name) for row in rows]
            self.sentences += said
            for at in range(0, len(said), SENTENCES_PER_VOICE):
                self.speakers.append(said[at : at + SENTENCES_PER_VOICE])

    def speaker(self, dice: random.Random) -> list[Sentence]:
        """Return the sentences of a random speaker."""
        return dice.choice(self.speakers)

    def words(self, _dice: random.Random, _code: str) -> list[Sentence]:
        """Return an empty list: a set has no single words."""
        return []

    def audio(self, sentence: Sentence) -> npt.NDArray[np.float32]:
        """float32 samples in [-1, 1]."""
        samples = self._samples[sentence.language]
        block = samples[sentence.start : sentence.start + sentence.length]
        return block.astype(np.float32) / 32768.0


def set_name(name: str, code: str) -> str:
    """Return the name of a set's files in a language: `train`, `train-de`."""
    return name if code == DEFAULT else f"{name}-{code}"


def _sentence(row: list[Any], code: str, name: str) -> Sentence:
    """Raises ValueError for an index without spans, written by an earlier version."""
    if len(row) != 6:
        raise ValueError("this corpus has no word spans: remove its folder, then make it anew")
    start, length, voice, text, ends, spoken = row
    spans = tuple(Span(*span) for span in spoken)
    return Sentence(start, length, voice, tuple(text.split()), tuple(ends), spans, code, name)


def _speak_group(job: tuple[str, int, list[str]]) -> list[tuple[bytes, str, str, Speech]]:
    """Synthesise some sentences by one speaker (voice, speed, pitch)."""
    voice, seed, texts = job
    dice = random.Random(seed)
    speed, pitch, spread = dice.randint(120, 200), dice.randint(25, 75), dice.randint(30, 70)
    engine = espeak()
    spoken = []
    for text in texts:
        speech = engine.speak(text, voice, speed, pitch, spread)
        # From int16 soxr would give different samples each time, because it dithers.
        audio = to_int16(resample(to_float(speech.samples), speech.rate))
        spoken.append((audio.tobytes(), voice, text, replace(speech, samples=audio[:0])))
    return spoken


def synthesise(
    directory: Path, name: str, voices: tuple[str, ...], texts: list[str], seed: int
) -> None:
    """Write `name`.pcm and `name`.json unless they exist."""
    if (directory / f"{name}.json").exists():
        return
    rows, start = [], 0
    with ProcessPoolExecutor(2) as pool, (directory / f"{name}.pcm").open("wb") as out:
        for spoken in pool.map(_speak_group, jobs(voices, texts, seed), chunksize=8):
            for audio, voice, text, speech in spoken:
                out.write(audio)
                ends = [round(end, 3) for end in speech.word_ends_seconds]
                spans = [(span.start, span.end) for span in speech.spans]
                rows.append((start, len(audio) // 2, voice, text, ends, spans))
                start += len(audio) // 2
    (directory / f"{name}.json").write_text(json.dumps(rows))
    print(f"{name}: {len(rows)} sentences, {start / SAMPLE_RATE / 3600:.2f} hours")


def jobs(voices: tuple[str, ...], texts: list[str], seed: int) -> list[tuple[str, int, list[str]]]:
    """Return groups of sentences, each with a voice and the seed of its speed and pitch."""
    dice = random.Random(seed)
    return [
        (dice.choice(voices), dice.getrandbits(32), texts[at : at + SENTENCES_PER_VOICE])
        for at in range(0, len(texts), SENTENCES_PER_VOICE)
    ]


@dataclass(frozen=True)
class Planned:
    """A set before synthesis: voices, texts, and the seed of the speakers."""

    name: str
    voices: tuple[str, ...]
    texts: list[str]
    seed: int


def texts(sentences: int, code: str = DEFAULT) -> tuple[list[str], list[str]]:
    """Return `sentences` training sentences, and the held-out ones, which do not occur in them."""
    train_maker = SentenceMaker(1, code)
    train = [train_maker.sentence() for _ in range(sentences)]
    known, held_out, maker = set(train), list[str](), SentenceMaker(2, code)
    while len(held_out) < 2 * _HELD_OUT_SENTENCES:
        if (text := maker.sentence()) not in known:
            held_out.append(text)
    return train, held_out


def planned(code: str, sentences: int) -> list[Planned]:
    """Return the three sets of a language."""
    train, held_out = texts(sentences, code)
    trained, unseen = train_voices(code), unseen_voices(code)
    return [
        Planned(set_name("train", code), trained, train, 3),
        Planned(set_name("seen", code), trained, held_out[:_HELD_OUT_SENTENCES], 4),
        Planned(set_name("unseen", code), unseen, held_out[_HELD_OUT_SENTENCES:], 5),
    ]


def make(
    directory: Path,
    sentences: int = TRAINING_SENTENCES,
    *,
    held_out_only: bool,
    languages: Sequence[str] = (DEFAULT,),
) -> None:
    """Write all three sets of each language, or the two held-out ones."""
    directory.mkdir(parents=True, exist_ok=True)
    for code in languages:
        for one in planned(code, sentences)[1 if held_out_only else 0 :]:
            synthesise(directory, one.name, one.voices, one.texts, one.seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--languages", type=chosen, default=(DEFAULT,), metavar="en,de,es")
    parser.add_argument("--sentences", type=int, default=TRAINING_SENTENCES, help="of a language")
    parser.add_argument("--held-out", action="store_true", help="without the training set")
    arguments = parser.parse_args()
    make(
        arguments.directory,
        arguments.sentences,
        held_out_only=arguments.held_out,
        languages=arguments.languages,
    )
