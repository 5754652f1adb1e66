"""Options of a session and of a recording's transcription."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict


class Endpointing(TypedDict, total=False):
    """The rules that end segments; the server has defaults for missing ones.

    `threshold` is the smallest probability that counts as speech. With `eagerness` a turn model
    ends segments, instead of a silence of `min_silence_ms`.
    """

    enabled: bool
    threshold: float
    min_silence_ms: int
    pre_roll_ms: int
    eagerness: Literal["low", "medium", "high", "auto"]


class StreamOptions(TypedDict, total=False):
    """Options of a live session, all optional. docs/websocket.md has bounds and defaults.

    `sample_rate` is the source's rate in Hz, by default 16000; a file has its own. `live` means
    that the audio comes in real time (default for a microphone): a lost server is detected within
    20 s, and a file or an array is sent at its own speed instead of as fast as possible. Each
    segment is in one of `languages`, at most four. `translate` has the target languages, as ISO
    639-1 codes; `terms` are words and their translations, by language. With `diarize` there are at
    most `max_speakers`. `word_times` "grid" needs no aligner: words have the times of decodes.
    `on_sent` is called on the event loop with the seconds of audio sent.
    """

    sample_rate: int
    language: str | None
    languages: Sequence[str]
    context: str
    chunk_ms: int | None
    partials: bool
    endpointing: Endpointing
    words: bool
    word_times: Literal["aligned", "grid"]
    diarize: bool
    max_speakers: int | None
    translate: Sequence[str]
    terms: Mapping[str, Mapping[str, str]]
    live: bool
    on_sent: Callable[[float], None]


class TranscribeOptions(TypedDict, total=False):
    """Options of a recording's transcription, all optional.

    `model` is by default the served one. Each segment is in one of `languages`. The answer has
    `words` with their times, and the text by speaker (`speakers`, at most `max_speakers`), if they
    are requested and the server has a model for them (`Client.capabilities`). With `translate`, an
    ISO 639-1 code, the text is in that language, and has neither `words` nor `speakers`. With
    `on_damage` "keep" a recording that is damaged within is transcribed as far as it can be
    decoded, with warnings; by default it is an error. `timeout_seconds` (an hour) is the deadline
    of the answer.
    """

    model: str
    language: str | None
    languages: Sequence[str]
    prompt: str
    words: bool
    speakers: bool
    max_speakers: int | None
    translate: str | None
    on_damage: Literal["reject", "keep"]
    timeout_seconds: float
