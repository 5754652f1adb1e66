"""Keeps words of a client's context out of text that the audio alone contradicts. No I/O.

Speech LLMs write what their context names even where something else was said, or nothing. So an
answer with a word of the context that this segment has not had yet is not believed at once: the
same audio is decoded again without the context. What both answers say was said. Where they differ,
the word stays if the model was unsure without it, which is what context is for; it is a leak where
the model, not having read it, is sure of something else or hears nothing there. Then the answer
without the context counts, and the rest of the segment is decoded without it.

What counts as a word of the context: each word of a list's entry (between commas, semicolons or
line ends, `_MOST_WORDS` at most), and of running text what has a capital or a digit. A sentence
such as "a talk about cars" would otherwise have every segment decoded twice, for its "a".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_MOST_WORDS = 4  # of an entry of a list
_BETWEEN = re.compile(r"[,;\n]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
# How probable each word of an answer must have been, without the context, to stand against one with
# it. Chosen in training voices (`python -m benchmarks.keywords --voices seen`).
SURE = 0.8


@dataclass(frozen=True)
class SpokenWord:
    """A word of an answer, lower case, and the probability of its least probable token."""

    text: str
    probability: float


class ContextGuard:
    """Guards the open segment of one session."""

    def __init__(self, context: str, sure: float = SURE) -> None:
        self._names = names(context)
        self._sure = sure
        self._heard: set[str] = set()

    def start_segment(self) -> None:
        """Forget what was heard in the segment before."""
        self._heard.clear()

    def doubts(self, text: str) -> bool:
        """Whether an answer has a word of the context that this segment has not had yet."""
        return bool(self._names) and not self._new(_plain(text)) <= self._heard

    def believes(self, text: str, without: Sequence[SpokenWord]) -> bool:
        """Whether an answer that was doubted is kept; `without` is the one without the context."""
        said = _plain(text)
        if not all(self._stands(*block) for block in _differences(said, without)):
            return False
        self._heard |= self._new(said)
        return True

    def _new(self, words: Iterable[str]) -> frozenset[str]:
        return self._names.intersection(words)

    def _stands(self, said: Sequence[str], without: Sequence[SpokenWord]) -> bool:
        """Whether words may stand where the answer without the context has others."""
        if not self._new(said):
            return True
        return bool(without) and min(word.probability for word in without) < self._sure


def names(context: str) -> frozenset[str]:
    """Return the words of a context that are guarded, lower case."""
    found: set[str] = set()
    for entry in _BETWEEN.split(context):
        words = _WORD.findall(entry)
        listed = len(words) <= _MOST_WORDS
        found |= {word.lower() for word in words if listed or not word.islower()}
    return frozenset(found)


def spoken_words(pieces: Iterable[tuple[bytes, float]]) -> list[SpokenWord]:
    """Return the words of an answer from its tokens' bytes and log probabilities."""
    data, scores = bytearray(), []
    for piece, logprob in pieces:
        data += piece
        scores += [logprob] * len(piece)
    text = data.decode(errors="replace")
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return [
        SpokenWord(
            found[0].lower(),
            math.exp(min(scores[at[found.start()] : at[found.end()]], default=0.0)),
        )
        for found in _WORD.finditer(text)
    ]


def _plain(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _differences(
    said: Sequence[str], without: Sequence[SpokenWord]
) -> list[tuple[Sequence[str], Sequence[SpokenWord]]]:
    """Return the parts in which two answers differ."""
    other = [word.text for word in without]
    matcher = SequenceMatcher(None, said, other, autojunk=False)
    return [
        (said[a:b], without[c:d]) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"
    ]
