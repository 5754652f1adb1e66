"""What may be asked of a session or of a recording's transcription."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict


class Endpointing(TypedDict, total=False):
    """Where segments end; what is not given is the server's default.

    `threshold` is the smallest probability that counts as speech. With `eagerness` a segment ends
    where a turn model takes the speaker's turn to be over, instead of after `min_silence_ms`.
    """

    enabled: bool
    threshold: float
    min_silence_ms: int
    pre_roll_ms: int
    eagerness: Literal["low", "medium", "high", "auto"]


class StreamOptions(TypedDict, total=False):
    """Options of a live session; all may be left out. docs/websocket.md has bounds and defaults.

    `sample_rate` is that of the source in Hz, 16000 unless given; a file has its own. `live` says
    that the audio comes in real time, so that a server that vanishes is noticed within 20 s: a
    microphone's does unless said otherwise, and a file or an array is sent at its own speed then
    instead of as fast as the server takes it. Of `languages`, at most four, each segment is in one.
    Text is translated into the languages `translate`, ISO 639-1 codes; `terms` are words and their
    translations, by language. `on_sent` is called on the event loop with the seconds of audio sent.
    """

    sample_rate: int
    language: str | None
    languages: Sequence[str]
    context: str
    chunk_ms: int | None
    partials: bool
    endpointing: Endpointing
    words: bool
    diarize: bool
    translate: Sequence[str]
    terms: Mapping[str, Mapping[str, str]]
    live: bool
    on_sent: Callable[[float], None]


class TranscribeOptions(TypedDict, total=False):
    """Options of a recording's transcription; all may be left out.

    Without `model` it is the one that the server serves. Of `languages` each segment is in one.
    The answer is waited for `timeout_seconds`, an hour unless given.
    """

    model: str
    language: str | None
    languages: Sequence[str]
    prompt: str
    timeout_seconds: float
