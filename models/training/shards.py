"""Speech of every source on disk, in shards of 256 sentences.

    python -m models.training.shards DIR [--languages en,de,es] [--sources flite,people]
        [--percent 100]

Each shard is two files, `flite-train-003.pcm` and `.json` (German: `…-003-de.pcm`), in the format
of `models.training.corpus`. Existing shards are kept, so an interrupted run can be resumed. The
name of a shard determines its voices and texts, and also the samples of synthesisers without a
random generator of their own.

For training, each source has `train` shards and half as many `words` shards of single words. For
tests it has one shard of its voices, `seen`, and one of its held-out voices, `unseen`, with
sentences outside every training set. `people` recorded only single words, so their shards have
these alone and in random rows. Their `seen` has the recordings of the training, mostly in other
rows.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from auricle.audio.decode import resample
from auricle.audio.pcm import to_float, to_int16
from models.training.augment import voice as voices
from models.training.corpus import (
    SENTENCES_PER_VOICE,
    TRAINING_SENTENCES,
    Corpus,
    set_name,
    texts,
)
from models.training.espeak import Speech
from models.training.languages import DEFAULT
from models.training.languages import chosen as languages
from models.training.packages import NoPackages
from models.training.sentences import SentenceMaker
from models.training.sources import SOURCES, engine, speaking
from models.training.spans import Span

FOLDER = "sources"
_SIZE = 256
# Single words are spoken slowly: a person takes 0.9 s for a "tuesday" that lasts 0.6 s in a
# synthesiser's sentence.
_SPEEDS = {"train": (0.85, 1.2), "words": (0.55, 1.1)}
_SINGLE, _ROW = 0.2, 0.35  # of the sentences (cumulative): single words, rows of two to five
_CORES = 2


class Shard(NamedTuple):
    """`role` is `train`, `words`, `seen` or `unseen`."""

    source: str
    role: str
    number: int

    @property
    def name(self) -> str:
        """The name of its two files, without their endings."""
        return set_name(f"{self.source}-{self.role}-{self.number:03}", self.language)

    @property
    def language(self) -> str:
        """The code of the spoken language."""
        return SOURCES[self.source].language


def planned(sources: Sequence[str], percent: float) -> list[Shard]:
    """Return all shards of some sources, the test shards first."""
    found = []
    for name in sources:
        source = SOURCES[name]
        count = max(1, round(source.sentences * percent / 100 / _SIZE))
        found += [Shard(name, "seen", 0), *([Shard(name, "unseen", 0)] * bool(source.held_out))]
        found += [Shard(name, "train", number) for number in range(count)]
        found += [Shard(name, "words", number) for number in range(-(-count // 2))]
    return sorted(found, key=lambda shard: shard.role in _SPEEDS)


def make(
    directory: Path, sources: Sequence[str] = speaking((DEFAULT,)), percent: float = 100
) -> list[Shard]:
    """Write the missing shards, and return all. Raises NoPackages."""
    folder = directory / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    every = planned(sources, percent)
    missing = [shard for shard in every if not (folder / f"{shard.name}.json").exists()]
    for name in dict.fromkeys(shard.source for shard in missing):
        SOURCES[name].fetch()
    left = _seconds(missing)
    print(f"{len(every) - len(missing)} of {len(every)} shards are there; {left / 60:.0f} min left")
    began = time.monotonic()
    with ProcessPoolExecutor(_CORES) as pool:
        for done, shard in enumerate(pool.map(_write, missing, [folder] * len(missing)), 1):
            rest = _seconds(missing[done:])
            pace = (time.monotonic() - began) / max(left - rest, 1e-3)
            print(f"{shard.name}: {rest * pace / 60:.0f} min left", flush=True)
    return every


def _seconds(shards: Sequence[Shard]) -> float:
    """Return the estimated duration on `_CORES` cores."""
    return sum(_SIZE / SOURCES[shard.source].pace for shard in shards) / _CORES


def _write(shard: Shard, folder: Path) -> Shard:
    rows, blocks, start = [], [], 0
    for voice, text, speech in spoken(shard, _SIZE):
        ends = [round(end, 3) for end in speech.word_ends_seconds]
        spans: list[Any] = [tuple(span) for span in speech.spans]
        rows.append((start, len(speech.samples), voice, text, ends, spans))
        blocks.append(speech.samples)
        start += len(speech.samples)
    part = folder / f"{shard.name}.part"
    np.concatenate(blocks).tofile(part)
    part.replace(folder / f"{shard.name}.pcm")
    part.write_text(json.dumps(rows))
    part.replace(folder / f"{shard.name}.json")
    return shard


def spoken(shard: Shard, size: int) -> list[tuple[str, str, Speech]]:
    """Return voice, text and speech (int16 at 16 kHz) of a shard's first `size` sentences.

    Speakers follow each other, each with eight sentences in one voice at one pace. Most training
    voices are modified (`models.training.augment.voice`).
    """
    dice, source = random.Random(shard.name), SOURCES[shard.source]
    said = []
    while len(said) < size:
        voice = dice.choice(source.held_out if shard.role == "unseen" else source.voices)
        speed, shape = dice.uniform(*_SPEEDS.get(shard.role, (1, 1))), voices.drawn(dice)
        if shard.role not in _SPEEDS:
            shape = voices.Shape()
        for text in _texts(shard, voice, dice):
            speech = engine(shard.source).say(text, voice, round(speed, 2))
            said.append((voice, text, _shaped(speech, shape)))
    return said[:size]


def _texts(shard: Shard, voice: str, dice: random.Random) -> list[str]:
    """Return one speaker's texts: words and rows of words, or held-out sentences, or others.

    A voice with a limited vocabulary has only these words and rows of them, whatever the role.
    """
    known = engine(shard.source).words(voice)
    maker = SentenceMaker(dice.getrandbits(32), shard.language)
    found: list[str] = []
    while len(found) < SENTENCES_PER_VOICE:
        kind = 0.0 if shard.role == "words" else dice.random()
        count = 1 if kind < _SINGLE else dice.randint(2, 5)
        if known is not None:
            text = " ".join(dice.choice(known) for _ in range(count))
        elif shard.role not in _SPEEDS:
            text = dice.choice(held_out(shard.language))
        else:
            text = maker.word_list(count) if kind < _ROW else maker.sentence()
            if text in held_out(shard.language):
                continue
        found.append(text)
    return found


@lru_cache
def held_out(code: str = DEFAULT) -> tuple[str, ...]:
    """Return the sentences of a language outside every training set."""
    return tuple(texts(TRAINING_SENTENCES, code)[1])


def opened(directory: Path, name: str, role: str) -> list[Corpus]:
    """Return the existing shards of a source."""
    code = SOURCES[name].language
    ending = f"{set_name('', code)}.json"
    found = sorted((directory / FOLDER).glob(f"{name}-{role}-[0-9][0-9][0-9]{ending}"))
    return [
        Corpus(path.parent, path.name.removesuffix(ending), languages=(code,)) for path in found
    ]


def _slower(span: Span, tempo: float) -> Span:
    return Span(*(None if at is None else at / tempo for at in span))


def _shaped(speech: Speech, shape: voices.Shape) -> Speech:
    audio = voices.shaped(resample(to_float(speech.samples), speech.rate), shape)
    return Speech(
        to_int16(audio),
        16_000,
        [end / shape.tempo for end in speech.word_ends_seconds],
        [_slower(span, shape.tempo) for span in speech.spans],
    )


def chosen(names: str) -> tuple[str, ...]:
    """Return the sources of `flite,people`. Raises ValueError for an unknown one."""
    found = tuple(name.strip() for name in names.split(",") if name.strip())
    if unknown := set(found) - SOURCES.keys():
        raise ValueError(f"no source {sorted(unknown)[0]!r}; there are: {', '.join(SOURCES)}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--languages", type=languages, default=(DEFAULT,), metavar="en,de,es")
    parser.add_argument("--sources", type=chosen, metavar="flite,people",
                        help="default: all that speak these languages")  # fmt: skip
    parser.add_argument("--percent", type=float, default=100, help="of the training shards")
    arguments = parser.parse_args()
    sources = arguments.sources
    if sources is None:
        sources = speaking(arguments.languages)
    try:
        make(arguments.directory, sources, arguments.percent)
    except NoPackages as error:
        raise SystemExit(f"{error}\nWithout them: --sources espeak-ng") from None
