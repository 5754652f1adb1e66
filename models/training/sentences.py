"""The demo model's languages: a word list and a small random grammar over it, for each."""

from __future__ import annotations

import random
from collections.abc import Iterable

from models.training.languages import DEFAULT, language

_NUMBERS = ("digits", "digit", "teen", "ten")
# The words of English by their group, numbers apart.
WORDS = {
    name: list(words)
    for name, words in language(DEFAULT).grammar.groups.items()
    if name not in _NUMBERS
}


def vocabulary(languages: Iterable[str] = (DEFAULT,)) -> list[str]:
    """All words of some languages, sorted, each written as in a dictionary."""
    return sorted({word for code in languages for word in language(code).vocabulary})


class SentenceMaker:
    """Random sentences of one language; the same seed gives the same sentences."""

    def __init__(self, seed: int, code: str = DEFAULT) -> None:
        self._random = random.Random(seed)
        self._language = language(code)

    def sentence(self) -> str:
        """One sentence: grammatical three times out of four, otherwise a word list.

        Word lists force the decoder to use the audio and not to rely on grammar alone.
        """
        if self._random.random() < 0.25:
            return self.word_list(self._random.randint(2, 9))
        return self._language.grammar.sentence(self._random)

    def word_list(self, count: int) -> str:
        """`count` random words."""
        return " ".join(self._random.choice(self._language.vocabulary) for _ in range(count))
