"""Speech of several sources as one corpus, mixed by the sources' shares."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.training.corpus import Corpus, Sentence
from models.training.languages import language
from models.training.shards import opened
from models.training.sources import SOURCES

Speakers = list[list[Sentence]]


class Mixture:
    """The set `train` of some languages and the shards of sources in these languages.

    All languages are equally frequent.
    """

    def __init__(self, directory: Path, sources: Sequence[str], languages: Sequence[str]) -> None:
        """Raises ValueError for a source without shards, or in a language not in `languages`."""
        for name in sources:
            if (code := SOURCES[name].language) not in languages:
                raise ValueError(f"{name} speaks {language(code).name}, which is not to be learned")
        base = Corpus(directory, "train", languages=languages)
        self.languages = base.languages
        self._corpora = {"train": base}
        shares = [SOURCES[name].share for name in sources]
        self._words = {
            code: [
                (self._speakers(directory, name, "words"), share)
                for name, share in zip(sources, shares, strict=True)
                if SOURCES[name].language == code
            ]
            for code in languages
        }
        self._parts = [
            *([s for s in base.speakers if s[0].language == code] for code in languages),
            *(self._speakers(directory, name, "train") for name in sources),
        ]
        rest = [1 - sum(share for _, share in self._words[code]) for code in languages]
        self._weights = [*rest, *shares]

    def _speakers(self, directory: Path, name: str, role: str) -> Speakers:
        """Open the shards of a source; return its speakers."""
        found = opened(directory, name, role)
        if not found:
            raise ValueError(
                f"no speech of {name} ({role}) is in {directory}: "
                f"python -m models.training.shards {directory} --sources {name}"
            )
        self._corpora |= {shard.sentences[0].of: shard for shard in found}
        return [speaker for shard in found for speaker in shard.speakers]

    def speaker(self, dice: random.Random) -> list[Sentence]:
        """Return the sentences of a random speaker of a random source."""
        (part,) = dice.choices(self._parts, self._weights)
        return dice.choice(part)

    def words(self, dice: random.Random, code: str) -> list[Sentence]:
        """Return single words by a random speaker of a language; [] if no source has any."""
        if not self._words[code]:
            return []
        parts, shares = zip(*self._words[code], strict=True)
        (part,) = dice.choices(parts, shares)
        return dice.choice(part)

    def audio(self, sentence: Sentence) -> npt.NDArray[np.float32]:
        """float32 samples in [-1, 1]."""
        return self._corpora[sentence.of].audio(sentence)
