"""The events of Wyoming, from bytes and to bytes. No I/O.

An event is a line of JSON (its header), then so many bytes of JSON and of payload as that says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from auricle import __version__
from auricle.checkpoint.languages import language_code
from auricle.errors import AuricleError, ProtocolError, TooLarge
from auricle.frontend.doors.field_errors import json_fault

T = TypeVar("T")
_HEADER_BYTES = 8_192
_DATA_BYTES = 65_536


class Transcribe(msgspec.Struct, frozen=True):
    """What the next audio is to be transcribed with; unknown fields have no effect."""

    name: str | None = None
    language: str | None = None
    transcript_names: tuple[str, ...] | None = None
    transcript_terms: tuple[str, ...] | None = None


class AudioFormat(msgspec.Struct, frozen=True):
    """The format of audio: rate in Hz, width in bytes."""

    rate: int
    width: int
    channels: int


class Ping(msgspec.Struct, frozen=True):
    """To be answered with the same text."""

    text: str | None = None


class _Header(msgspec.Struct, frozen=True):
    type: str
    data: dict[str, Any] | None = None
    data_length: int | None = None
    payload_length: int | None = None


@dataclass(frozen=True)
class Event:
    """One event as it was received."""

    kind: str
    data: dict[str, Any]
    payload: bytes = b""

    def read_as(self, wanted: type[T]) -> T:
        """Return the event's data as `wanted`. Raises ProtocolError, naming the field."""
        try:
            return msgspec.convert(self.data, wanted)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"{self.kind}: {json_fault(error)}") from None


class EventParser:
    """Cuts what a client sends into events, each of which is bounded."""

    def __init__(self, payload_bytes: int) -> None:
        """`payload_bytes` is the most that a payload may have."""
        self._payload_bytes = payload_bytes
        self._bytes = bytearray()
        self._header: _Header | None = None

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        self._bytes += data

    @property
    def held(self) -> int:
        """How many bytes wait to become events."""
        return len(self._bytes)

    def next(self) -> Event | None:
        """Return the next event, None if more must be received for it.

        Raises ProtocolError or TooLarge; what follows cannot be read then.
        """
        if self._header is None and (line := self._line()) is not None:
            self._header = self._checked(line)
        header = self._header
        if header is None:
            return None
        data_length, payload_length = header.data_length or 0, header.payload_length or 0
        if len(self._bytes) < data_length + payload_length:
            return None
        self._header = None
        data = dict(header.data or {})
        if data_length:
            data |= _object(self._taken(data_length))
        return Event(header.type, data, self._taken(payload_length))

    def _line(self) -> bytes | None:
        end = self._bytes.find(b"\n", 0, _HEADER_BYTES)
        if end >= 0:
            return self._taken(end + 1)
        if len(self._bytes) >= _HEADER_BYTES:
            raise TooLarge(f"an event's first line has at most {_HEADER_BYTES} bytes")
        return None

    def _checked(self, line: bytes) -> _Header:
        header = _decoded(line, _Header)
        for name, length, most in (
            ("data_length", header.data_length, _DATA_BYTES),
            ("payload_length", header.payload_length, self._payload_bytes),
        ):
            if length is not None and length < 0:
                raise ProtocolError(f"{name} is negative")
            if length is not None and length > most:
                raise TooLarge(f"{name} is {length}, and may be at most {most}")
        return header

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        return taken


def _decoded(data: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else json_fault(error)
        raise ProtocolError(f"not an event of Wyoming: {why}") from None


def _object(data: bytes) -> dict[str, Any]:
    return _decoded(data, dict[str, Any])


def encode(kind: str, **data: Any) -> bytes:
    """Return an event's bytes; fields that are None are left out."""
    body = msgspec.json.encode({name: value for name, value in data.items() if value is not None})
    header = {"type": kind, "data_length": len(body)}
    return msgspec.json.encode(header) + b"\n" + body


def error(failure: AuricleError) -> bytes:
    """Return the event of a failure. `retry_after_seconds` is an extension of Wyoming's."""
    after = failure.retry_after_seconds or None
    return encode("error", text=failure.for_client, code=failure.code, retry_after_seconds=after)


def info(model: str, languages: tuple[str, ...]) -> bytes:
    """Return what is served here, as the answer to `describe`."""
    made_by = {"name": "auricle", "url": ""}
    codes = [code for code in map(language_code, languages) if code is not None]
    served = {
        "name": model,
        "attribution": made_by,
        "installed": True,
        "description": "the served model",
        "version": __version__,
        "languages": codes,
    }
    program = {
        "name": "auricle",
        "attribution": made_by,
        "installed": True,
        "description": "streaming speech recognition",
        "version": __version__,
        "models": [served],
        "supports_transcript_streaming": True,
        "requires_external_vad": True,
    }
    return encode("info", asr=[program])
