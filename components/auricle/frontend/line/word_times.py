"""The times of words in protocols that have a text and its words in one message. No I/O."""

from __future__ import annotations

from collections import deque
from typing import Literal

from msgspec.structs import replace

from auricle.messages.sessions import Final, Partial, Words

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
        self._held: deque[Partial | Final] = deque()
        self._words: dict[int, Words] = {}

    def heard(self, event: Partial | Final | Words) -> list[Partial | Final]:
        """Return what can be told now, in order."""
        if isinstance(event, Words):
            self._words[event.segment] = event
        else:
            self._held.append(event)
        told: list[Partial | Final] = []
        while self._held and not self._waits(self._held[0]):
            told.append(self._with_words(self._held.popleft()))
        return told

    def rest(self) -> list[Partial | Final]:
        """Return what is still held, as no more words will come."""
        held, self._held = list(self._held), deque()
        return held

    def _waits(self, event: Partial | Final) -> bool:
        return isinstance(event, Final) and bool(event.text) and event.segment not in self._words

    def _with_words(self, event: Partial | Final) -> Partial | Final:
        if not isinstance(event, Final) or not event.text:
            return event
        found = self._words.pop(event.segment)
        if found.source != "aligned":
            return event
        return replace(event, words=found.words, word_source=found.source)
