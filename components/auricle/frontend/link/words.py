"""Words, speakers and tokens in protocols that send them together with their text. No I/O."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from auricle.protocol.annotation import SegmentSpeakers
from auricle.protocol.sessions import ScoredToken, SegmentFinal, SegmentPartial, SegmentWords
from auricle.transcript.words import divided

# The option `word_times`, an extension of several protocols: the times of decodes, which come with
# the text, or the aligner's, for which finals wait.
WordTimes = Literal["grid", "aligned"]


Text = SegmentPartial | SegmentFinal


class HeldFinals:
    """Holds each final, and the events after it, until its annotations have arrived.

    These are the aligner's `words` and the `speakers`. A processor sends them for each final with
    text, or the reason why they are missing, within `Processor.words_deadline_seconds` and
    `Processor.speakers_deadline_seconds`. Without words the final keeps the times of decodes.
    """

    def __init__(self, *, words: bool = False, speakers: bool = False) -> None:
        self._held: deque[Text] = deque()
        # The annotations of the held finals that have arrived, by segment; None if not awaited.
        self._words: dict[int, SegmentWords] | None = {} if words else None
        self._speakers: dict[int, SegmentSpeakers] | None = {} if speakers else None

    def add(self, event: Text | SegmentWords | SegmentSpeakers) -> list[Text]:
        """Take the next event; return the events to send now, in order."""
        if isinstance(event, SegmentWords):
            if self._words is not None:
                self._words[event.segment] = event
        elif isinstance(event, SegmentSpeakers):
            if self._speakers is not None:
                self._speakers[event.segment] = event
        else:
            self._held.append(event)
        ready: list[Text] = []
        while self._held and not self._waits(self._held[0]):
            ready.append(self._annotated(self._held.popleft()))
        return ready

    def rest(self) -> list[Text]:
        """Return the events that are still held; no more annotations will arrive."""
        held, self._held = list(self._held), deque()
        return held

    def _waits(self, event: Text) -> bool:
        if not isinstance(event, SegmentFinal) or not event.text:
            return False
        awaited = [found for found in (self._words, self._speakers) if found is not None]
        return any(event.segment not in found for found in awaited)

    def _annotated(self, event: Text) -> Text:
        if not isinstance(event, SegmentFinal) or not event.text:
            return event
        if self._words is not None:
            found = self._words.pop(event.segment)
            if found.source == "aligned":
                event = replace(event, words=found.words, word_source=found.source)
        if self._speakers is not None:
            event = replace(event, speakers=self._speakers.pop(event.segment))
        return event


def speakers_of(final: SegmentFinal) -> tuple[int | None, ...]:
    """Return the speaker of each of the final's words, counted from 1; None if not known."""
    found: list[int | None] = [None] * len(final.words)
    if final.speakers is not None:
        parts = final.speakers.parts
        shares = divided([word.text for word in final.words], [part.text for part in parts])
        for part, own in zip(parts, shares, strict=True):
            found[own] = [part.speaker] * len(found[own])
    return tuple(found)


def speaker_letter(speaker: int) -> str:
    """Return A for the first speaker; a session has fewer (MOST_SPEAKERS) than the alphabet."""
    return string.ascii_uppercase[speaker - 1]


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
