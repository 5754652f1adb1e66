"""Reads what the client of `/v1/audio/stream` sends. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import BadRequest, ProtocolError, UnsupportedValue
from auricle.frontend.doors.field_errors import json_fault
from auricle.frontend.doors.options import read
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.listening.turn_wait import WAITS
from auricle.frontend.stream.protocol import LOG_MEL, End, Endpointing, Start
from auricle.quoting import quoted
from auricle.settings import FrontendSettings
from auricle.translation.targets import check_targets, check_terms

_LATER = msgspec.json.Decoder(Start | End)
_EXAMPLE = (
    'the first message must be a JSON start such as {"type": "start", "sample_rate": 16000}: '
)


def parse_start(text: str | None) -> Start:
    """Parse the first message. Raises ProtocolError, naming the wrong value and valid ones."""
    if text is None:
        raise ProtocolError("binary audio before the start message; send a JSON start first")
    try:
        start = read(Start, msgspec.json.decode(text, type=dict[str, Any]), ProtocolError)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(_EXAMPLE + json_fault(error)) from None
    except BadRequest as error:
        raise _wrong(error.param, _EXAMPLE * (error.param == "type") + str(error)) from None
    if start.languages and start.language is not None:
        raise _wrong("languages", "send either language or languages")
    if start.encoding == LOG_MEL:
        _check_features(start)
    _check_eagerness(start.endpointing)
    try:
        check_targets(start.translate, "translate")
        check_terms(start.terms, start.translate, "terms")
    except UnsupportedValue as error:
        raise _wrong(error.param, str(error)) from None
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
    if start.endpointing != Endpointing():
        raise _wrong(
            "endpointing", f"endpointing has no effect with {LOG_MEL}: the client marks speech"
        )


def _check_eagerness(wanted: Endpointing) -> None:
    if wanted.eagerness is None:
        return
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
    needed = None if wanted.eagerness is None else True
    return EndpointingOptions.chosen(
        settings,
        enabled=needed if wanted.enabled is None else wanted.enabled,
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
