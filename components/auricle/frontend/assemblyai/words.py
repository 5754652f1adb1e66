"""The words of a turn, as AssemblyAI's clients expect them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auricle.frontend.dialects.messages import Reply
from auricle.frontend.dialects.turns import Spoken, Turn

_WORD = re.compile(r"\S+")


def words_of(turn: Turn) -> list[Reply]:
    """Return the words of a turn. Times are in ms of the session's audio."""
    return [word for one in turn.spoken for word in _words(one)]


def _words(spoken: Spoken) -> Iterator[Reply]:
    """Yield the words of a segment, whose time they share by their characters.

    The model gives no times of words, nor a confidence; clients need numbers for both.
    """
    begin, per_character = spoken.begin * 1000, 0.0
    if spoken.text:
        per_character = (spoken.end - spoken.begin) * 1000 / len(spoken.text)
    for found in _WORD.finditer(spoken.text):
        yield {
            "start": round(begin + found.start() * per_character),
            "end": round(begin + found.end() * per_character),
            "text": found[0],
            "confidence": 0.0,
            # The last settled word may go on: what follows it may not begin with a space.
            "word_is_final": spoken.is_final or found.end() < spoken.settled,
        }
