"""The server's messages of `/v1/audio/stream`, for the server and for the client library.

See docs/websocket.md. Fields that end in `_ms` are milliseconds, and positions are relative to the
start of the session.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

# The source of word times: the aligner, or the decodes in which each word first appeared.
WordSource = Literal["aligned", "commit_grid"]


# Clients accept any text, as a newer server may have other sources.
Source = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(get_args(WordSource))})]


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resumes a session: the server sends it with its messages, and the client returns the last
    one unchanged.

    `token` is opaque. The client keeps audio from `from_sample` on (counted at the client's sample
    rate from the session's start), and sends it again after `start`.
    """

    token: str
    from_sample: int


class Resumable(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message after which the client can resume the session, if it has `resume`."""

    resume: Resume | None = None


class Usage(msgspec.Struct, frozen=True):
    """The cost of a session so far; `*_tokens` are summed over all decodes.

    `decode_steps` counts decode steps, which run in sequence. `decodes_skipped` counts grid
    points without a decode, because of load or because the segment ended.
    """

    audio_ms: int = 0
    decodes: int = 0
    decodes_skipped: int = 0
    windows_encoded: int = 0
    blocks_convolved: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    embedding_bytes_read: int = 0


class Ready(Resumable, frozen=True, tag="ready"):
    """The session is open; audio may be sent."""

    session: str
    model: str
    chunk_ms: int


class SpeechStarted(Resumable, frozen=True, tag="speech_started"):
    """Speech began at `at_ms`, which does not include the pre-roll."""

    at_ms: int


class SpeechStopped(Resumable, frozen=True, tag="speech_stopped"):
    """Speech ended at `at_ms`; sent once the silence has lasted `min_silence_ms`, or the turn is
    over."""

    at_ms: int


class TurnPaused(Resumable, frozen=True, tag="turn_paused"):
    """Speech paused at `at_ms`: with this probability (0 to 1) the turn is over. Sent with
    `eagerness` only, and followed by `turn_resumed` or `speech_stopped`."""

    at_ms: int
    probability: float


class TurnResumed(Resumable, frozen=True, tag="turn_resumed"):
    """The speaker continues at `at_ms`: the paused turn is not over."""

    at_ms: int


class Checkpoint(Resumable, frozen=True, tag="checkpoint"):
    """Only a new `resume`; sent after 10 s of audio without another message."""


class Partial(Resumable, frozen=True, tag="partial"):
    """The text of the open segment. `committed` is append-only; `partial` may change."""

    segment: int
    committed: str
    partial: str
    audio_ms: int
    language: str


class Final(Resumable, frozen=True, tag="final"):
    """The final text of one segment, which starts with the text committed before."""

    segment: int
    text: str
    start_ms: int
    end_ms: int
    language: str


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word and its time. `word` has letters and digits only; the joined `text` of all words of a
    segment is the segment's text. `confidence` is the model's, from 0 to 1, if known.
    """

    word: str
    text: str
    start_ms: int
    end_ms: int
    confidence: float | None = None


class Words(Resumable, frozen=True, tag="words"):
    """The words of a segment whose `final` came before.

    `source` is `aligned`, or `commit_grid` if the session requested that or the aligner lacks the
    language: times then have the granularity of decodes. `missing` is the reason for missing
    aligned times; without a `source`, words are missing. `confidence` is the mean of the words',
    if all are known.
    """

    segment: int
    words: tuple[Word, ...]
    source: Source | None = None
    missing: str | None = None
    confidence: float | None = None


class SpeakerPart(msgspec.Struct, frozen=True):
    """A speaker, counted from 1, with their `text`, which may be empty. The joined `text` of all
    parts of a segment is the segment's text.
    """

    speaker: int
    start_ms: int
    end_ms: int
    text: str


class Speakers(Resumable, frozen=True, tag="speakers"):
    """The speakers of a segment whose `final` came before. They never change.

    `source` names the word times that divide the text: the aligner's or the decodes'. `missing` is
    the reason for missing parts.
    """

    segment: int
    parts: tuple[SpeakerPart, ...]
    source: Source | None = None
    missing: str | None = None


class Translation(Resumable, frozen=True, tag="translation"):
    """The translation of a segment into `language`. `committed` is append-only; `partial` follows
    it and may change.

    `final` marks the last event; each segment with text and each language has one. `missing` is the
    reason if the translation is incomplete; committed text stays.
    """

    segment: int
    language: str
    committed: str
    partial: str
    final: bool
    missing: str | None = None


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The last message of a session that succeeded: this connection's finals, joined by spaces."""

    text: str
    usage: Usage


class GoingAway(Resumable, frozen=True, tag="going_away"):
    """The server is shutting down and ends the session before its audio has ended.

    The client can resume it, or continue in a new session, on any server, with `context` and the
    audio from `resume_ms`. The text of all audio before that is final.
    """

    resume_ms: int
    context: str


class Error(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """The last message of a session that failed; `code` is an `AuricleError.code`.

    `retry_after_seconds` is given if a retry may succeed after that time, and `param` if a field
    of `start` is wrong: its name.
    """

    code: str
    message: str
    retry_after_seconds: float = 0.0
    param: str | None = None


SpeechMark = SpeechStarted | SpeechStopped | TurnPaused | TurnResumed
Reply = (
    Ready
    | SpeechMark
    | Checkpoint
    | Partial
    | Final
    | Words
    | Speakers
    | Translation
    | GoingAway
    | Done
    | Error
)
