"""Speech with lists of keywords: spoken words, or words that only look like spoken ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from benchmarks.speech import Recording, spoken
from benchmarks.ways.audio import CORPUS, word_lists
from models.training.corpus import Corpus
from models.training.sentences import vocabulary

_PAUSES = (0.05, 1.2)
_KEYWORDS = 6
_ALIKE = 0.5  # share of letters that two words have in common, in order
_NEAREST = 3  # words most like a spoken one; one of them is chosen
# Words outside of the demo model's vocabulary, by the vocabulary word that they sound like.
_SIMILAR = {
    "house": "hows mouse grouse", "book": "brook hook crook", "rain": "reign crane drain",
    "train": "crane strain terrain", "boat": "moat goat vote", "box": "fox socks rocks",
    "cat": "bat cap catch", "dog": "fog log dock", "cup": "pup cop cut",
    "bread": "spread bred thread",
    "milk": "silk mill milt", "street": "sheet treat straight", "bridge": "ridge fridge breach",
    "light": "kite lied lied", "coffee": "coffin toffee copy", "table": "cable stable label",
    "river": "liver rover shiver", "station": "nation stationed stallion",
    "phone": "foam bone cone",
    "snow": "snore slow show", "water": "daughter waiter quarter", "chair": "share cheer stair",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A recording and its keywords: all are spoken in it, or none (`spoken`)."""

    recording: Recording
    keywords: tuple[str, ...]
    spoken: bool


def cases(voices: str, count: int, corpus: Corpus, seed: int = 19) -> list[Case]:
    """Return `count` cases of 3 to 12 s, with spoken and with similar keywords in turns.

    Half of them are sentences of `corpus`, half (in unseen `voices`) words in random order.
    """
    dice = random.Random(seed)
    kinds = (corpus, word_lists(CORPUS) if voices == "unseen" else corpus)
    made = []
    while len(made) < count:
        number = len(made)
        recording = spoken(kinds[number // 2 % 2], dice, dice.uniform(3, 12), _PAUSES)
        words = [word.text for word in recording.words]
        said = number % 2 == 0
        keywords = _said(dice, words) if said else _alike(dice, words)
        made.append(Case(recording, keywords, said))
    return made


def _said(dice: random.Random, words: Sequence[str]) -> tuple[str, ...]:
    known = sorted({word for word in words if len(word) > 2})
    return tuple(dice.sample(known, min(_KEYWORDS, len(known))))


def _alike(dice: random.Random, words: Sequence[str]) -> tuple[str, ...]:
    """Return unspoken words that each look like a spoken one."""
    said, found = set(words), set[str]()
    for word in dice.sample(words, len(words)):
        others = [*vocabulary(), *_SIMILAR.get(word, "").split()]
        likeness = {
            other: SequenceMatcher(None, word, other).ratio()
            for other in others
            if other not in said and len(other) > 2
        }
        near = sorted(likeness, key=lambda other: -likeness[other])[:_NEAREST]
        found |= {other for other in near if likeness[other] >= _ALIKE}
    return tuple(dice.sample(sorted(found), min(_KEYWORDS, len(found))))
