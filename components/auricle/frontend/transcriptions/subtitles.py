"""Cuts a segment's text into subtitles that can be read, at its words. No I/O."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from auricle.messages.stream import Word
from auricle.subtitles import Cue


def lines(whole: Cue, words: Sequence[Word], most: int) -> Iterator[Cue]:
    """Yield subtitles of one line of at most `most` characters; a longer word is a line.

    Where the times of words are not known the segment stays `whole`, on several lines: when each
    of them was said, nobody knows.
    """
    if not words:
        yield Cue(whole.start_ms, whole.end_ms, "\n".join(textwrap.wrap(whole.text, most)))
        return
    line: list[Word] = []
    for word in words:
        if line and len("".join(one.text for one in [*line, word]).rstrip()) > most:
            yield _cue(line)
            line = []
        line.append(word)
    yield _cue(line)


def _cue(line: Sequence[Word]) -> Cue:
    return Cue(line[0].start_ms, line[-1].end_ms, "".join(word.text for word in line).strip())
