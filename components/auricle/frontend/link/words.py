"""The times of words in protocols that have a text and its words in one message. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from auricle.protocol.sessions import ScoredToken, SegmentFinal, SegmentPartial, SegmentWords

# The option `word_times`, an extension of several protocols: times of decodes, which are there with
# the text, or the aligner's, for which finals wait.
WordTimes = Literal["grid", "aligned"]


class HeldWords:
    """Holds finals until their words have come, and what follows them for as long.

    For clients that would rather wait than get the times of decodes. A processor follows each
    final with text by its words, or by why there are none, within
    `Processor.words_deadline_seconds`: then the final goes on with the times of decodes.
    """

    def __init__(self) -> None:
        self._held: deque[SegmentPartial | SegmentFinal] = deque()
        self._words: dict[int, SegmentWords] = {}

    def heard(
        self, event: SegmentPartial | SegmentFinal | SegmentWords
    ) -> list[SegmentPartial | SegmentFinal]:
        """Return what can be told now, in order."""
        if isinstance(event, SegmentWords):
            self._words[event.segment] = event
        else:
            self._held.append(event)
        told: list[SegmentPartial | SegmentFinal] = []
        while self._held and not self._waits(self._held[0]):
            told.append(self._with_words(self._held.popleft()))
        return told

    def rest(self) -> list[SegmentPartial | SegmentFinal]:
        """Return what is still held, as no more words will come."""
        held, self._held = list(self._held), deque()
        return held

    def _waits(self, event: SegmentPartial | SegmentFinal) -> bool:
        return (
            isinstance(event, SegmentFinal)
            and bool(event.text)
            and event.segment not in self._words
        )

    def _with_words(self, event: SegmentPartial | SegmentFinal) -> SegmentPartial | SegmentFinal:
        if not isinstance(event, SegmentFinal) or not event.text:
            return event
        found = self._words.pop(event.segment)
        if found.source != "aligned":
            return event
        return replace(event, words=found.words, word_source=found.source)


# The tokens of a text and their log probabilities, as OpenAI's protocols say them. No I/O.

Tokens = tuple[ScoredToken, ...]


def joined(texts: Iterable[tuple[str, Tokens]]) -> Tokens:
    """Return the tokens of texts that are joined by spaces; empty if those of one are not known."""
    found: list[ScoredToken] = []
    for text, tokens in texts:
        if text and not tokens:
            return ()
        for token in tokens:
            between = bool(found) and token is tokens[0] and not token.data.startswith(b" ")
            found.append(ScoredToken(b" " + token.data, token.logprob) if between else token)
    return tuple(found)


def entries(tokens: Sequence[ScoredToken]) -> list[dict[str, object]]:
    """Return what is said of each token; a part of a character has no text of its own."""
    return [
        {
            "token": token.data.decode(errors="replace"),
            "bytes": list(token.data),
            "logprob": token.logprob,
        }
        for token in tokens
    ]
