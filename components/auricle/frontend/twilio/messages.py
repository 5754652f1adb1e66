"""The messages of Twilio's media streams. No I/O. Names and fields are Twilio's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from auricle.errors import ProtocolError, UnsupportedValue
from auricle.frontend.doors.field_errors import json_fault
from auricle.quoting import quoted
from auricle.text_bounds import CONTEXT, LANGUAGE, check

SAMPLE_RATE = 8_000  # Hz
ENCODING = "pcm_mulaw"
_MU_LAW = "audio/x-mulaw"
_TRACKS = ("inbound", "outbound")
_LONGEST = 65_536  # characters of a message; 20 ms of audio have 214
# A name on the transcript bus is part of a subject, where other characters have a meaning.
_SID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
KEY_PARAMETER, LANGUAGE_PARAMETER, CONTEXT_PARAMETER = "api_key", "language", "context"


class MediaFormat(msgspec.Struct, frozen=True, rename="camel"):
    """What `media` holds."""

    encoding: str
    sample_rate: int
    channels: int = 1


class StartFields(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a stream before its audio comes."""

    stream_sid: str
    call_sid: str
    media_format: MediaFormat
    tracks: tuple[str, ...] = ("inbound",)
    custom_parameters: dict[str, str] = {}


class MediaFields(msgspec.Struct, frozen=True):
    """Audio of one track, base64 in the message."""

    payload: bytes
    track: str = "inbound"


class Connected(msgspec.Struct, frozen=True, tag_field="event", tag="connected"):
    """The first message."""


class Start(msgspec.Struct, frozen=True, tag_field="event", tag="start"):
    """The second message."""

    start: StartFields


class Media(msgspec.Struct, frozen=True, tag_field="event", tag="media"):
    """Audio."""

    media: MediaFields


class Stop(msgspec.Struct, frozen=True, tag_field="event", tag="stop"):
    """The stream or the call has ended."""


Message = Connected | Start | Media | Stop
_KNOWN = ("connected", "start", "media", "stop")
_JSON: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class _Named(msgspec.Struct, frozen=True):
    event: str


def parse_message(text: str) -> Message | None:
    """Parse a message; None for one that says nothing about audio, such as `dtmf` and `mark`.

    Raises ProtocolError.
    """
    if len(text) > _LONGEST:
        raise ProtocolError(f"a message has at most {_LONGEST} characters, not {len(text)}")
    try:
        return _JSON.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError) and _is_another(text):
            return None
        raise ProtocolError(
            f"not a message of Twilio's media streams: {json_fault(error)}"
        ) from None


def _is_another(text: str) -> bool:
    try:
        return msgspec.json.decode(text, type=_Named).event not in _KNOWN
    except (msgspec.DecodeError, RecursionError):
        return False


@dataclass(frozen=True)
class Call:
    """A stream of a call: what was asked for, and with which key."""

    call: str
    stream: str
    tracks: tuple[str, ...]
    language: str | None = None
    context: str = ""
    secret: str | None = field(default=None, repr=False)

    @classmethod
    def begun_by(cls, start: StartFields) -> Call:
        """Return the call that `start` describes. Raises UnsupportedValue, naming the field."""
        for name, sid in (("callSid", start.call_sid), ("streamSid", start.stream_sid)):
            if not _SID.fullmatch(sid):
                raise UnsupportedValue(
                    f"{name} {quoted(sid)} cannot be used: it must be 1 to 64 letters, digits, "
                    "- or _",
                    name,
                )
        _check_format(start.media_format)
        tracks = start.tracks
        if not tracks or set(tracks) - set(_TRACKS) or len(set(tracks)) < len(tracks):
            raise UnsupportedValue("tracks must be inbound, outbound or both", "tracks")
        given = start.custom_parameters
        language = given.get(LANGUAGE_PARAMETER) or None
        context = given.get(CONTEXT_PARAMETER, "")
        check(LANGUAGE_PARAMETER, language, LANGUAGE)
        check(CONTEXT_PARAMETER, context, CONTEXT)
        secret = given.get(KEY_PARAMETER)
        return cls(start.call_sid, start.stream_sid, tracks, language, context, secret)


def _check_format(given: MediaFormat) -> None:
    if (given.encoding, given.sample_rate, given.channels) != (_MU_LAW, SAMPLE_RATE, 1):
        raise UnsupportedValue(
            f"mediaFormat must be {_MU_LAW} at {SAMPLE_RATE} Hz with 1 channel", "mediaFormat"
        )
