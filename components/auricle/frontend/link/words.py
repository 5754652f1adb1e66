"""Words and tokens in protocols that send them together with their text. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from auricle.protocol.sessions import ScoredToken, SegmentFinal, SegmentPartial, SegmentWords

# The option `word_times`, an extension of several protocols: the times of decodes, which come with
# the text, or the aligner's, for which finals wait.
WordTimes = Literal["grid", "aligned"]


class HeldWords:
    """Holds each final, and the events after it, until the aligner's words have arrived.

    A processor sends the words of each final with text, or the reason why they are missing, within
    `Processor.words_deadline_seconds`. Without them the final keeps the times of decodes.
    """

    def __init__(self) -> None:
        self._held: deque[SegmentPartial | SegmentFinal] = deque()
        self._words: dict[int, SegmentWords] = {}

    def add(
        self, event: SegmentPartial | SegmentFinal | SegmentWords
    ) -> list[SegmentPartial | SegmentFinal]:
        """Take the next event; return the events to send now, in order."""
        if isinstance(event, SegmentWords):
            self._words[event.segment] = event
        else:
            self._held.append(event)
        ready: list[SegmentPartial | SegmentFinal] = []
        while self._held and not self._waits(self._held[0]):
            ready.append(self._with_words(self._held.popleft()))
        return ready

    def rest(self) -> list[SegmentPartial | SegmentFinal]:
        """Return the events that are still held; no more words will arrive."""
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


Tokens = tuple[ScoredToken, ...]


def joined(texts: Iterable[tuple[str, Tokens]]) -> Tokens:
    """Return the tokens of texts joined by spaces; empty if the tokens of one are unknown."""
    found: list[ScoredToken] = []
    for text, tokens in texts:
        if text and not tokens:
            return ()
        for token in tokens:
            between = bool(found) and token is tokens[0] and not token.data.startswith(b" ")
            found.append(replace(token, data=b" " + token.data) if between else token)
    return tuple(found)


def entries(tokens: Sequence[ScoredToken]) -> list[dict[str, object]]:
    """Return the tokens as OpenAI's protocols have them; a part of a character has no text."""
    return [
        {
            "token": token.data.decode(errors="replace"),
            "bytes": list(token.data),
            "logprob": token.logprob,
        }
        for token in tokens
    ]
