"""Reads what the client of `/v1/audio/stream` sends. No I/O."""

from __future__ import annotations

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.audio.features import DTYPES
from auricle.audio.pcm import ENCODINGS
from auricle.errors import ProtocolError, UnsupportedValue
from auricle.frontend.doors.field_errors import check_text, json_fault, json_field
from auricle.frontend.doors.hints import MOST_AMONG
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.listening.turn_wait import WAITS
from auricle.frontend.stream.protocol import LOG_MEL, End, Endpointing, Start
from auricle.live_settings import (
    MAX_PRE_ROLL_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_THRESHOLD,
    MIN_SILENCE_MS,
    MIN_SPEECH_THRESHOLD,
)
from auricle.messages import MAX_CHUNK_MS, MIN_CHUNK_MS
from auricle.quoting import quoted
from auricle.settings import FrontendSettings
from auricle.text_bounds import CONTEXT, LANGUAGE
from auricle.translation.targets import check_targets, check_terms

_FIRST = msgspec.json.Decoder(Start)
_LATER = msgspec.json.Decoder(Start | End)


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
    _check_languages(start)
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
    _check_translations(start)
    return start


def _wrong(param: str | None, message: str) -> ProtocolError:
    """Return the error of a field of `start`."""
    error = ProtocolError(message)
    error.param = param
    return error


def _check_languages(start: Start) -> None:
    check_text("language", start.language, LANGUAGE, ProtocolError)
    for language in start.languages:
        check_text("languages", language, LANGUAGE, ProtocolError)
    if start.languages and start.language is not None:
        raise _wrong("languages", "send either language or languages")
    if (count := len(start.languages)) > MOST_AMONG:
        message = f"languages has {count} languages, at most {MOST_AMONG} are allowed"
        raise _wrong("languages", message)


def _check_translations(start: Start) -> None:
    try:
        check_targets(start.translate, "translate")
        check_terms(start.terms, start.translate, "terms")
    except UnsupportedValue as error:
        raise _wrong(error.param, str(error)) from None


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
    _check_eagerness(wanted)


def _check_eagerness(wanted: Endpointing) -> None:
    if wanted.eagerness is None:
        return
    if wanted.eagerness not in WAITS:
        raise _wrong(
            "endpointing.eagerness",
            f"unknown endpointing.eagerness {quoted(wanted.eagerness)}; supported: "
            + ", ".join(WAITS),
        )
    if wanted.min_silence_ms is not None:
        raise _wrong(
            "endpointing.min_silence_ms",
            "endpointing.min_silence_ms has no effect with endpointing.eagerness: give one of them",
        )
    if wanted.enabled is False:
        raise _wrong(
            "endpointing.eagerness", "endpointing.eagerness needs endpointing, which is not enabled"
        )


def endpointing_options(start: Start, settings: FrontendSettings) -> EndpointingOptions | None:
    """Return the session's options, with the server's as defaults; None to decode all audio."""
    wanted = start.endpointing
    by_default = settings.endpointing or wanted.eagerness is not None
    if not (by_default if wanted.enabled is None else wanted.enabled):
        return None
    return EndpointingOptions.over(
        settings,
        threshold=wanted.threshold,
        min_silence_ms=wanted.min_silence_ms,
        pre_roll_ms=wanted.pre_roll_ms,
        turns=None if wanted.eagerness is None else WAITS[wanted.eagerness],
        recorded=not start.partials,
    )


def parse_end(text: str) -> None:
    """Check a text message after the start. Raises ProtocolError unless it is `end`."""
    try:
        message = _LATER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"expected binary audio or a JSON end: {json_fault(error)}") from None
    if isinstance(message, Start):
        raise ProtocolError("start was sent twice; open another connection for another session")
