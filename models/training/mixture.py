"""Speech of several sources as one corpus, each source as often as its share says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.training.corpus import Corpus, Sentence
from models.training.languages import DEFAULT
from models.training.shards import FOLDER
from models.training.sources import SOURCES


class Mixture:
    """The set `train` of some languages and the shards of sources, who speak English.

    Each language is heard as often as the others.
    """

    def __init__(self, directory: Path, sources: Sequence[str], languages: Sequence[str]) -> None:
        """Raises ValueError for a source of which nothing is there, or which nobody is to learn."""
        if sources and DEFAULT not in languages:
            raise ValueError(f"{', '.join(sources)} speak English, which is not to be learned")
        base = Corpus(directory, "train", languages=languages)
        self.languages = base.languages
        self._corpora = {"train": base}
        self._shares = [SOURCES[name].share for name in sources]
        of_sources = [self._speakers(directory, name, "train") for name in sources]
        self._words = [self._speakers(directory, name, "words") for name in sources]
        self._parts = [
            *([s for s in base.speakers if s[0].language == code] for code in languages),
            *of_sources,
        ]
        rest = [1 - sum(self._shares) * (code == DEFAULT) for code in languages]
        self._weights = [*rest, *self._shares]

    def _speakers(self, directory: Path, name: str, role: str) -> list[list[Sentence]]:
        """Open the shards of a source; return its speakers."""
        found = sorted((directory / FOLDER).glob(f"{name}-{role}-*.json"))
        if not found:
            raise ValueError(
                f"no speech of {name} ({role}) is in {directory}: "
                f"python -m models.training.shards {directory} --sources {name}"
            )
        shards = [Corpus(directory / FOLDER, path.stem) for path in found]
        self._corpora |= {path.stem: shard for path, shard in zip(found, shards, strict=True)}
        return [speaker for shard in shards for speaker in shard.speakers]

    def speaker(self, dice: random.Random) -> list[Sentence]:
        """Return what some speaker of some source says."""
        (part,) = dice.choices(self._parts, self._weights)
        return dice.choice(part)

    def words(self, dice: random.Random, code: str) -> list[Sentence]:
        """Return words by themselves of some speaker of some source; nobody's but in English."""
        if code != DEFAULT or not self._words:
            return []
        (part,) = dice.choices(self._words, self._shares)
        return dice.choice(part)

    def audio(self, sentence: Sentence) -> npt.NDArray[np.float32]:
        """float32 samples in [-1, 1]."""
        return self._corpora[sentence.of].audio(sentence)
