"""The messages of `/v1/audio/stream`, and their JSON. No I/O.

The client sends `start`, binary frames of audio, and `end`. The server sends `ready`, then
`partial` and `final` for each segment, then `done` or `error`. See docs/websocket.md. Fields
that end in `_ms` are milliseconds, and positions are relative to the start of the session.
"""

from __future__ import annotations

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.audio.features import DTYPES
from auricle.audio.pcm import ENCODINGS
from auricle.errors import ProtocolError
from auricle.frontend.doors.field_errors import check_text, json_fault, json_field
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.live_settings import (
    MAX_PRE_ROLL_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_THRESHOLD,
    MIN_SILENCE_MS,
    MIN_SPEECH_THRESHOLD,
)
from auricle.messages import MAX_CHUNK_MS, MIN_CHUNK_MS, Final, Partial, Usage
from auricle.quoting import quoted
from auricle.settings import FrontendSettings
from auricle.text_bounds import CONTEXT, LANGUAGE

# The encoding of features that the client computed, see docs/log_mel.md.
LOG_MEL = "log_mel"


class Endpointing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The session's endpointing; None stands for the server's default.

    `threshold` is a speech probability from 0 to 1. With `enabled` false all audio is decoded.
    """

    enabled: bool | None = None
    threshold: float | None = None
    min_silence_ms: int | None = None
    pre_roll_ms: int | None = None


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
    detected. With `partials` false each segment is decoded once, when it is complete; that
    costs less, and the text does not depend on load. With `resume` an earlier session goes on,
    whose `start` had the same other fields.
    """

    sample_rate: int
    encoding: str = "pcm_s16le"
    feature_dtype: str = "float32"
    language: str | None = None
    context: str = ""
    chunk_ms: int | None = None
    partials: bool = True
    endpointing: Endpointing = Endpointing()
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
    """Speech ended at `at_ms`; sent once the silence has lasted `min_silence_ms`."""

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


# What a client can resume the session after.
Resumable = (
    ReadyReply
    | SpeechStartedReply
    | SpeechStoppedReply
    | CheckpointReply
    | PartialReply
    | FinalReply
    | GoingAwayReply
)
Reply = Resumable | DoneReply | ErrorReply
_FIRST = msgspec.json.Decoder(Start)
_LATER = msgspec.json.Decoder(Start | End)
_encode = msgspec.json.Encoder().encode


def parse_start(text: str | None) -> Start:
    """Parse the first message. Raises ProtocolError, naming the wrong value and valid ones."""
    if text is None:
        raise ProtocolError("binary audio before the start message; send a JSON start first")
    try:
        start = _FIRST.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong(
            json_field(error),
            f"the first message must be a JSON start such as "
            f'{{"type": "start", "sample_rate": 16000}}: {json_fault(error)}',
        ) from None
    check_text("context", start.context, CONTEXT, ProtocolError)
    check_text("language", start.language, LANGUAGE, ProtocolError)
    if start.encoding not in (*ENCODINGS, LOG_MEL):
        known = ", ".join((*ENCODINGS, LOG_MEL))
        raise _wrong("encoding", f"unknown encoding {quoted(start.encoding)}; supported: {known}")
    if start.encoding == LOG_MEL:
        _check_features(start)
    if not MIN_RATE <= start.sample_rate <= MAX_RATE:
        raise _wrong(
            "sample_rate",
            f"sample_rate {quoted(start.sample_rate)} is outside {MIN_RATE} to {MAX_RATE} Hz",
        )
    if start.chunk_ms is not None and not MIN_CHUNK_MS <= start.chunk_ms <= MAX_CHUNK_MS:
        raise _wrong(
            "chunk_ms",
            f"chunk_ms {quoted(start.chunk_ms)} is outside {MIN_CHUNK_MS} to {MAX_CHUNK_MS}",
        )
    _check_endpointing(start.endpointing)
    return start


def _wrong(param: str | None, message: str) -> ProtocolError:
    """Return the error of a field of `start`."""
    error = ProtocolError(message)
    error.param = param
    return error


def _check_features(start: Start) -> None:
    if start.sample_rate != SAMPLE_RATE:
        raise _wrong(
            "sample_rate",
            f"{LOG_MEL} is of {SAMPLE_RATE} Hz audio, sample_rate is {quoted(start.sample_rate)}",
        )
    if start.feature_dtype not in DTYPES:
        raise _wrong(
            "feature_dtype",
            f"unknown feature_dtype {quoted(start.feature_dtype)}; supported: {', '.join(DTYPES)}",
        )
    if start.endpointing != Endpointing():
        raise _wrong(
            "endpointing", f"endpointing has no effect with {LOG_MEL}: the client marks speech"
        )


def _check_endpointing(wanted: Endpointing) -> None:
    limits: tuple[tuple[str, float | None, float, float], ...] = (
        ("threshold", wanted.threshold, MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD),
        ("min_silence_ms", wanted.min_silence_ms, MIN_SILENCE_MS, MAX_SILENCE_MS),
        ("pre_roll_ms", wanted.pre_roll_ms, 0, MAX_PRE_ROLL_MS),
    )
    for name, value, low, high in limits:
        if value is not None and not low <= value <= high:
            field = f"endpointing.{name}"
            raise _wrong(field, f"{field} {value:g} is outside {low:g} to {high:g}")


def endpointing_options(start: Start, settings: FrontendSettings) -> EndpointingOptions | None:
    """Return the session's options, with the server's as defaults; None to decode all audio."""
    wanted = start.endpointing
    if not (settings.endpointing if wanted.enabled is None else wanted.enabled):
        return None
    return EndpointingOptions.over(
        settings,
        threshold=wanted.threshold,
        min_silence_ms=wanted.min_silence_ms,
        pre_roll_ms=wanted.pre_roll_ms,
    )


def parse_end(text: str) -> None:
    """Check a text message after the start. Raises ProtocolError unless it is `end`."""
    try:
        message = _LATER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"expected binary audio or a JSON end: {json_fault(error)}") from None
    if isinstance(message, Start):
        raise ProtocolError("start was sent twice; open another connection for another session")


def encode(reply: Reply) -> str:
    """Return a reply as JSON text."""
    return _encode(reply).decode()


def partial_reply(event: Partial) -> PartialReply:
    """Return the client's message for a partial."""
    return PartialReply(
        event.segment, event.committed, event.partial, event.audio_ms, event.language
    )


def final_reply(event: Final) -> FinalReply:
    """Return the client's message for a final."""
    return FinalReply(event.segment, event.text, event.start_ms, event.end_ms, event.language)
