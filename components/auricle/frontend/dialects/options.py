"""What the options of every dialect say of the audio and its text. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.line.word_times import WordTimes
from auricle.frontend.listening.turn_wait import Silence


@dataclass(frozen=True, kw_only=True)
class AudioOptions:
    """What the protocols share; `encoding` is one of `audio.pcm.ENCODINGS`.

    `sample_rate` is in Hz, of each of the `channels`, which are sessions of their own. Without
    `silence` the server's endpointing applies. With `languages` each segment is in one of them.
    `words`: the times that words have. `warnings` are sentences on what has no effect.
    """

    encoding: str
    sample_rate: int
    channels: int = 1
    model: str | None = None
    language: str | None = None
    languages: tuple[str, ...] = ()
    context: str = ""
    partials: bool = False
    silence: Silence | None = None
    words: WordTimes = "grid"
    warnings: tuple[str, ...] = ()
