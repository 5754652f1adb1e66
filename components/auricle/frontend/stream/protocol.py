"""The messages of `/v1/audio/stream`, and their JSON. No I/O.

The client sends `start`, binary frames of audio, and `end`. The server sends `ready`, then
`partial` and `final` for each segment, then `done` or `error`. See docs/websocket.md. Fields
that end in `_ms` are milliseconds, and positions are relative to the start of the session.
"""

from __future__ import annotations

import msgspec

from auricle.messages import Usage, WordSource

# The encoding of features that the client computed, see docs/log_mel.md.
LOG_MEL = "log_mel"


class Endpointing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The session's endpointing; None stands for the server's default.

    `threshold` is a speech probability from 0 to 1. With `enabled` false all audio is decoded. With
    `eagerness` speech ends where a turn model takes the speaker's turn to be over, instead of after
    `min_silence_ms`.
    """

    enabled: bool | None = None
    threshold: float | None = None
    min_silence_ms: int | None = None
    pre_roll_ms: int | None = None
    eagerness: str | None = None


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a session is resumed: the server sends it with its messages, and the client sends back
    the last one, unchanged.

    `token` is opaque. `from_sample` is the sample, counted at the client's sample rate from the
    session's begin, from which audio must be kept, and sent again after `start`.
    """

    token: str
    from_sample: int


class Start(msgspec.Struct, frozen=True, tag="start", forbid_unknown_fields=True):
    """The client's first message.

    `sample_rate` is in Hz. `feature_dtype` applies to the encoding `log_mel` only. With
    `chunk_ms` None the server's default applies, with `language` None the language is
    detected; of `languages`, at most four, each segment is in one. With `partials` false each
    segment is decoded once, when it is complete; that costs less, and the text does not depend on
    load. With `words` each `final` with text is followed, sooner or later, by its `words`, with
    `diarize` by its `speakers`. Text is translated into the languages `translate`, ISO 639-1 codes,
    at most four; `terms` are words and their translations, by language. With `resume` an earlier
    session goes on, whose `start` had the same other fields.
    """

    sample_rate: int
    encoding: str = "pcm_s16le"
    feature_dtype: str = "float32"
    language: str | None = None
    languages: tuple[str, ...] = ()
    context: str = ""
    chunk_ms: int | None = None
    partials: bool = True
    endpointing: Endpointing = Endpointing()
    words: bool = False
    diarize: bool = False
    translate: tuple[str, ...] = ()
    terms: dict[str, dict[str, str]] = {}
    resume: Resume | None = None


class End(msgspec.Struct, frozen=True, tag="end", forbid_unknown_fields=True):
    """The client's last message: the audio has ended."""


class ReadyReply(msgspec.Struct, frozen=True, tag="ready", omit_defaults=True):
    """The session is open; audio may be sent."""

    session: str
    model: str
    chunk_ms: int
    resume: Resume | None = None


class SpeechStartedReply(msgspec.Struct, frozen=True, tag="speech_started", omit_defaults=True):
    """Speech began at `at_ms`, which does not include the pre-roll."""

    at_ms: int
    resume: Resume | None = None


class SpeechStoppedReply(msgspec.Struct, frozen=True, tag="speech_stopped", omit_defaults=True):
    """Speech ended at `at_ms`; sent once the silence has lasted `min_silence_ms`, or the turn is
    over."""

    at_ms: int
    resume: Resume | None = None


class TurnPausedReply(msgspec.Struct, frozen=True, tag="turn_paused", omit_defaults=True):
    """Speech paused at `at_ms`: with this probability (0 to 1) the turn is over. Sent with
    `eagerness` only, and followed by `turn_resumed` or `speech_stopped`."""

    at_ms: int
    probability: float
    resume: Resume | None = None


class TurnResumedReply(msgspec.Struct, frozen=True, tag="turn_resumed", omit_defaults=True):
    """The speaker goes on, at `at_ms`: the turn that had paused is not over."""

    at_ms: int
    resume: Resume | None = None


class CheckpointReply(msgspec.Struct, frozen=True, tag="checkpoint", omit_defaults=True):
    """Nothing new but `resume`; sent if nothing else was, for 10 s of audio."""

    resume: Resume | None = None


class PartialReply(msgspec.Struct, frozen=True, tag="partial", omit_defaults=True):
    """The text of the open segment. `committed` is append-only; `partial` may change."""

    segment: int
    committed: str
    partial: str
    audio_ms: int
    language: str
    resume: Resume | None = None


class FinalReply(msgspec.Struct, frozen=True, tag="final", omit_defaults=True):
    """The final text of one segment, which starts with the text committed before."""

    segment: int
    text: str
    start_ms: int
    end_ms: int
    language: str
    resume: Resume | None = None


class TimedWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word and when it was said. `word` has letters and digits only; the `text` of all words of
    a segment, joined, is the segment's text. `confidence` is how sure the model was of it, from 0
    to 1, where that is known.
    """

    word: str
    text: str
    start_ms: int
    end_ms: int
    confidence: float | None = None


class WordsReply(msgspec.Struct, frozen=True, tag="words", omit_defaults=True):
    """The words of a segment whose `final` came before.

    `source` is `aligned`, or `commit_grid` where the aligner lacks the language: times are as
    coarse as decodes are apart then. `missing` says why there are no aligned times; without a
    `source` there are no words. `confidence` is the mean of the words', where all are known.
    """

    segment: int
    words: tuple[TimedWord, ...]
    source: WordSource | None = None
    missing: str | None = None
    confidence: float | None = None
    resume: Resume | None = None


class SpeakerPart(msgspec.Struct, frozen=True):
    """A speaker, counted from 1, and what they said; `text` may be empty. The `text` of all parts
    of a segment, joined, is the segment's text.
    """

    speaker: int
    start_ms: int
    end_ms: int
    text: str


class SpeakersReply(msgspec.Struct, frozen=True, tag="speakers", omit_defaults=True):
    """Who spoke in a segment whose `final` came before. It never changes.

    `source` says by what times of words the text is divided: those of the aligner, or of decodes.
    `missing` says why there are no parts.
    """

    segment: int
    parts: tuple[SpeakerPart, ...]
    source: WordSource | None = None
    missing: str | None = None
    resume: Resume | None = None


class TranslationReply(msgspec.Struct, frozen=True, tag="translation", omit_defaults=True):
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
    resume: Resume | None = None


class DoneReply(msgspec.Struct, frozen=True, tag="done"):
    """The last message of a session that succeeded: this connection's finals, joined by spaces."""

    text: str
    usage: Usage


class GoingAwayReply(msgspec.Struct, frozen=True, tag="going_away", omit_defaults=True):
    """The server is shutting down and ends the session before its audio has ended.

    The client can resume it, or continue in a new session, on any server, with `context` and the
    audio from `resume_ms`. The text of all audio before that is final.
    """

    resume_ms: int
    context: str
    resume: Resume | None = None


class ErrorReply(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """The last message of a session that failed; `code` is an `AuricleError.code`.

    `retry_after_seconds` is given if a retry may succeed after that time, and `param` if a field
    of `start` is wrong: its name.
    """

    code: str
    message: str
    retry_after_seconds: float = 0.0
    param: str | None = None


SpeechMark = SpeechStartedReply | SpeechStoppedReply | TurnPausedReply | TurnResumedReply
# What a client can resume the session after.
Resumable = (
    ReadyReply
    | SpeechMark
    | CheckpointReply
    | PartialReply
    | FinalReply
    | WordsReply
    | SpeakersReply
    | TranslationReply
    | GoingAwayReply
)
Reply = Resumable | DoneReply | ErrorReply
_encode = msgspec.json.Encoder().encode


def encode(reply: Reply) -> str:
    """Return a reply as JSON text."""
    return _encode(reply).decode()
