"""The streaming WebSocket's messages. Pure: bytes and text in, typed messages out.

Client: `start`, binary PCM frames, `end`. Server: `ready`, `partial`, `final` per
segment, `done` or `error`. See docs/websocket.md.
"""

from __future__ import annotations

import msgspec

from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.audio.features import DTYPES
from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import ENCODINGS
from auricle.errors import ProtocolError
from auricle.frontend.endpointing import EndpointingOptions
from auricle.messages import MAX_CHUNK_MS, MIN_CHUNK_MS, Final, Partial, Usage
from auricle.settings import (
    MAX_CONTEXT_CHARACTERS,
    MAX_PRE_ROLL_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_THRESHOLD,
    MIN_SILENCE_MS,
    MIN_SPEECH_THRESHOLD,
    FrontendSettings,
)

# Features instead of samples, see docs/log_mel.md.
LOG_MEL = "log_mel"


class Endpointing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How speech is found in this session; None takes the server's default.

    `threshold` is a speech probability. With `enabled` false all audio is decoded.
    """

    enabled: bool | None = None
    threshold: float | None = None
    min_silence_ms: int | None = None
    pre_roll_ms: int | None = None


class Start(msgspec.Struct, frozen=True, tag="start", forbid_unknown_fields=True):
    """First message of a client.

    `feature_dtype` is that of `log_mel`. `chunk_ms` None takes the server's default. With
    `partials` false each segment is decoded once, when it is complete: cheaper, and
    independent of load.
    """

    sample_rate: int
    encoding: str = "pcm_s16le"
    feature_dtype: str = "float32"
    language: str | None = None
    context: str = ""
    chunk_ms: int | None = None
    partials: bool = True
    endpointing: Endpointing = Endpointing()


class End(msgspec.Struct, frozen=True, tag="end", forbid_unknown_fields=True):
    """Last message of a client: no more audio."""


class ReadyReply(msgspec.Struct, frozen=True, tag="ready"):
    """The session is open; audio may be sent."""

    session: str
    model: str
    chunk_ms: int


class SpeechStartedReply(msgspec.Struct, frozen=True, tag="speech_started"):
    """Speech began at `at_ms` of the session."""

    at_ms: int


class SpeechStoppedReply(msgspec.Struct, frozen=True, tag="speech_stopped"):
    """Speech ended at `at_ms`; sent once the silence has lasted `min_silence_ms`."""

    at_ms: int


class PartialReply(msgspec.Struct, frozen=True, tag="partial"):
    """Text of the open segment: `committed` only grows, `partial` may change."""

    segment: int
    committed: str
    partial: str
    audio_ms: int
    language: str


class FinalReply(msgspec.Struct, frozen=True, tag="final"):
    """Finished text of one segment; starts with all that was committed of it."""

    segment: int
    text: str
    start_ms: int
    end_ms: int
    language: str


class DoneReply(msgspec.Struct, frozen=True, tag="done"):
    """The session's whole text: the finals, joined by spaces."""

    text: str
    usage: Usage


class GoingAwayReply(msgspec.Struct, frozen=True, tag="going_away"):
    """The server is about to go and the session is over, but for what it has not heard.

    A new session, anywhere, given `context` and the audio from `resume_ms` on, goes on.
    """

    resume_ms: int
    context: str


class ErrorReply(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """The session is over; `code` is one of errors.py. Where trying again helps, when."""

    code: str
    message: str
    retry_after_seconds: float = 0.0


Reply = (
    ReadyReply
    | SpeechStartedReply
    | SpeechStoppedReply
    | PartialReply
    | FinalReply
    | DoneReply
    | GoingAwayReply
    | ErrorReply
)
_FIRST = msgspec.json.Decoder(Start)
_LATER = msgspec.json.Decoder(Start | End)
_encode = msgspec.json.Encoder().encode


def parse_start(text: str | None) -> Start:
    """The first message. Raises ProtocolError saying what is wrong and what would be right."""
    if text is None:
        raise ProtocolError("binary audio before the start message; send a JSON start first")
    try:
        start = _FIRST.decode(text)
    except msgspec.DecodeError as error:
        raise ProtocolError(
            f"the first message must be a JSON start such as "
            f'{{"type": "start", "sample_rate": 16000}}: {error}'
        ) from None
    if start.encoding not in (*ENCODINGS, LOG_MEL):
        raise ProtocolError(
            f"unknown encoding {start.encoding!r}; supported: {', '.join((*ENCODINGS, LOG_MEL))}"
        )
    if start.encoding == LOG_MEL:
        _check_features(start)
    if not MIN_RATE <= start.sample_rate <= MAX_RATE:
        raise ProtocolError(
            f"sample_rate {start.sample_rate} is outside {MIN_RATE} to {MAX_RATE} Hz"
        )
    if start.chunk_ms is not None and not MIN_CHUNK_MS <= start.chunk_ms <= MAX_CHUNK_MS:
        raise ProtocolError(
            f"chunk_ms {start.chunk_ms} is outside {MIN_CHUNK_MS} to {MAX_CHUNK_MS}"
        )
    if len(start.context) > MAX_CONTEXT_CHARACTERS:
        raise ProtocolError(
            f"context has {len(start.context)} characters, at most {MAX_CONTEXT_CHARACTERS}"
        )
    _check_endpointing(start.endpointing)
    return start


def _check_features(start: Start) -> None:
    if start.sample_rate != SAMPLE_RATE:
        raise ProtocolError(
            f"{LOG_MEL} is of {SAMPLE_RATE} Hz audio, sample_rate is {start.sample_rate}"
        )
    if start.feature_dtype not in DTYPES:
        raise ProtocolError(
            f"unknown feature_dtype {start.feature_dtype!r}; supported: {', '.join(DTYPES)}"
        )
    if start.endpointing != Endpointing():
        raise ProtocolError(f"endpointing has no effect with {LOG_MEL}: the client marks speech")


def _check_endpointing(wanted: Endpointing) -> None:
    limits: tuple[tuple[str, float | None, float, float], ...] = (
        ("threshold", wanted.threshold, MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD),
        ("min_silence_ms", wanted.min_silence_ms, MIN_SILENCE_MS, MAX_SILENCE_MS),
        ("pre_roll_ms", wanted.pre_roll_ms, 0, MAX_PRE_ROLL_MS),
    )
    for name, value, low, high in limits:
        if value is not None and not low <= value <= high:
            raise ProtocolError(f"endpointing.{name} {value:g} is outside {low:g} to {high:g}")


def endpointing_options(start: Start, settings: FrontendSettings) -> EndpointingOptions | None:
    """The session's own values, else the server's; None if all audio is to be decoded."""
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
    """A JSON message after the start: only `end` is allowed."""
    try:
        message = _LATER.decode(text)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"expected binary audio or a JSON end: {error}") from None
    if isinstance(message, Start):
        raise ProtocolError("start was sent twice; open another connection for another session")


def encode(reply: Reply) -> str:
    """A reply as JSON text."""
    return _encode(reply).decode()


def partial_reply(event: Partial) -> PartialReply:
    """Event → message."""
    return PartialReply(
        event.segment, event.committed, event.partial, event.audio_ms, event.language
    )


def final_reply(event: Final) -> FinalReply:
    """Event → message."""
    return FinalReply(event.segment, event.text, event.start_ms, event.end_ms, event.language)
