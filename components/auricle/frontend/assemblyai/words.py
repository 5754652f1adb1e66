"""The words of a turn, as AssemblyAI's clients expect them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auricle.frontend.dialects.messages import Reply
from auricle.frontend.dialects.turns import Spoken, Turn

_WORD = re.compile(r"\S+")


def words_of(turn: Turn) -> list[Reply]:
    """Return the words of a turn. Times are in ms of the session's audio."""
    return [word for one in turn.spoken for word in (_words(one) if one.words else _shares(one))]


def _words(spoken: Spoken) -> Iterator[Reply]:
    """Yield the words of a segment. Clients need a confidence: it is 0 where that is not known."""
    joined = "".join(word.text for word in spoken.words)
    at = len(joined.lstrip()) - len(joined)  # the segment's text begins at 0
    for word in spoken.words:
        end = at + len(word.text.rstrip())
        yield _told(
            *(word.start_ms, word.end_ms, word.text.strip(), word.confidence or 0.0),
            is_final=spoken.is_final or end < spoken.settled,
        )
        at += len(word.text)


def _shares(spoken: Spoken) -> Iterator[Reply]:
    """Yield the words of a segment, whose time they share by their characters.

    Nothing else is known of text that another processor had heard.
    """
    begin, per_character = spoken.begin * 1000, 0.0
    if spoken.text:
        per_character = (spoken.end - spoken.begin) * 1000 / len(spoken.text)
    for found in _WORD.finditer(spoken.text):
        yield _told(
            round(begin + found.start() * per_character),
            round(begin + found.end() * per_character),
            found[0],
            0.0,
            # The last settled word may go on: what follows it may not begin with a space.
            is_final=spoken.is_final or found.end() < spoken.settled,
        )


def _told(start: int, end: int, text: str, confidence: float, *, is_final: bool) -> Reply:
    return {
        "start": start,
        "end": end,
        "text": text,
        "confidence": confidence,
        "word_is_final": is_final,
    }
