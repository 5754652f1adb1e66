"""Training conversations of a few turns; the model learns every answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from models.training.sentences import WORDS
from models.training.translate.parallel import Sentence
from models.training.translate.prompts import Turn

_TURNS = (1, 2, 3, 4)
_SENTENCES = (1, 1, 1, 2, 2, 3)
_WHOLE, _WITH_MORE = 0.5, 0.35  # the rest: a beginning, translated as a complete text
_OTHER_BEGINNING = 0.25  # the given start of the answer may differ from the translation
_TERMS = 0.12
_NOUNS = ("animal", "food", "thing", "vehicle", "place")


@dataclass(frozen=True)
class Conversation:
    terms: tuple[tuple[str, str], ...]
    turns: tuple[Turn, ...]


class ConversationMaker:
    """Random conversations; the seed fixes the sequence."""

    def __init__(self, sentences: Sequence[Sentence], seed: int) -> None:
        self._sentences = sentences
        self._dice = random.Random(seed)
        self._terms = _single_words(sentences)

    def make(self) -> Conversation:
        if self._terms and self._dice.random() < _TERMS:
            return self._with_terms()
        count = self._dice.choice(_TURNS)
        return Conversation((), tuple(self._turn() for _ in range(count)))

    def _some(self) -> list[Sentence]:
        return self._dice.choices(self._sentences, k=self._dice.choice(_SENTENCES))

    def _turn(self) -> Turn:
        *before, last = self._some()
        kind = self._dice.random()
        source = [" ".join(sentence.words) for sentence in before]
        target = [sentence.said[-1] for sentence in before]
        if kind < _WHOLE:
            return self._whole(source, target, last)
        count = self._dice.randint(1, len(last.words))
        more = kind < _WHOLE + _WITH_MORE
        source.append(" ".join(last.words[:count]))
        target.append(last.stable(count) if more else last.said[count - 1])
        return Turn(" ".join(source), " ".join(target).strip(), more=more)

    def _whole(self, source: list[str], target: list[str], last: Sentence) -> Turn:
        text = " ".join([*source, *last.words])
        if self._dice.random() >= _OTHER_BEGINNING:
            return Turn(text, " ".join([*target, last.said[-1]]))
        begun = self._dice.choice(last.said)
        given = " ".join([*target, begun])
        return Turn(text, " ".join([given, *_rest(last.said[-1], begun)]), given)

    def _with_terms(self) -> Conversation:
        """A sentence in which a term gives one word another's translation, among other terms."""
        for _ in range(20):
            sentence = self._dice.choice(self._sentences)
            fitting = [w for w in sentence.words if self._term(w) in sentence.said[-1].split()]
            if fitting:
                word = self._dice.choice(fitting)
                other = self._terms[self._dice.choice(list(self._terms))]
                told = [other if t == self._term(word) else t for t in sentence.said[-1].split()]
                beside = self._dice.sample(
                    list(self._terms), min(self._dice.randint(0, 2), len(self._terms))
                )
                terms = {w: self._terms[w] for w in beside} | {word: other}
                order = self._dice.sample(list(terms.items()), len(terms))
                turn = Turn(" ".join(sentence.words), " ".join(told))
                return Conversation(tuple(order), (turn,))
        return Conversation((), (self._turn(),))

    def _term(self, word: str) -> str | None:
        return self._terms.get(word)


def _rest(whole: str, begun: str) -> list[str]:
    """Return the words of `whole` that are not in `begun`."""
    said = Counter(begun.split())
    left = []
    for word in whole.split():
        if said[word]:
            said[word] -= 1
        else:
            left.append(word)
    return left


def _single_words(sentences: Sequence[Sentence]) -> dict[str, str]:
    """Return the demo's nouns, each with its most frequent translation after "the"."""
    nouns = {word for group in _NOUNS for word in WORDS[group]}
    seen: dict[str, Counter[str]] = {}
    for sentence in sentences:
        if sentence.words[0] == "the" and len(sentence.words) > 1 and sentence.words[1] in nouns:
            seen.setdefault(sentence.words[1], Counter())[sentence.said[1].split()[-1]] += 1
    return {noun: told.most_common(1)[0][0] for noun, told in sorted(seen.items())}
