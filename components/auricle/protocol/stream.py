"""The server's messages of `/v1/audio/stream`, for the server and for the client library.

See docs/websocket.md. Fields that end in `_ms` are milliseconds, and positions are relative to the
start of the session.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

# Where the times of words come from.

# The aligner, or the decodes at which each word had been heard, which are as far apart as decodes
# are.
WordSource = Literal["aligned", "commit_grid"]


# Clients take any text, as a newer server may have other sources.
Source = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(get_args(WordSource))})]


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a session is resumed: the server sends it with its messages, and the client sends back
    the last one, unchanged.

    `token` is opaque. `from_sample` is the sample, counted at the client's sample rate from the
    session's begin, from which audio must be kept, and sent again after `start`.
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
    """The speaker goes on, at `at_ms`: the turn that had paused is not over."""

    at_ms: int


class Checkpoint(Resumable, frozen=True, tag="checkpoint"):
    """Nothing new but `resume`; sent if nothing else was, for 10 s of audio."""


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
    """A word and when it was said. `word` has letters and digits only; the `text` of all words of
    a segment, joined, is the segment's text. `confidence` is how sure the model was of it, from 0
    to 1, where that is known.
    """

    word: str
    text: str
    start_ms: int
    end_ms: int
    confidence: float | None = None


class Words(Resumable, frozen=True, tag="words"):
    """The words of a segment whose `final` came before.

    `source` is `aligned`, or `commit_grid` where the aligner lacks the language: times are as
    coarse as decodes are apart then. `missing` says why there are no aligned times; without a
    `source` there are no words. `confidence` is the mean of the words', where all are known.
    """

    segment: int
    words: tuple[Word, ...]
    source: Source | None = None
    missing: str | None = None
    confidence: float | None = None


class SpeakerPart(msgspec.Struct, frozen=True):
    """A speaker, counted from 1, and what they said; `text` may be empty. The `text` of all parts
    of a segment, joined, is the segment's text.
    """

    speaker: int
    start_ms: int
    end_ms: int
    text: str


class Speakers(Resumable, frozen=True, tag="speakers"):
    """Who spoke in a segment whose `final` came before. It never changes.

    `source` says by what times of words the text is divided: those of the aligner, or of decodes.
    `missing` says why there are no parts.
    """

    segment: int
    parts: tuple[SpeakerPart, ...]
    source: Source | None = None
    missing: str | None = None


class Translation(Resumable, frozen=True, tag="translation"):
    """The translation of a segment into `language`. `committed` is append-only; `partial` follows
    it and may change.

    With `final` it is complete; each segment with text and each language has one such event.
    `missing` says why it is not complete: what was committed stays, and nothing follows.
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
