"""Twilio's media streams, on `WS /v1/twilio`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

import msgspec

from auricle.checkpoints.languages import spoken_language
from auricle.core.aio import with_timeout
from auricle.core.errors import ProtocolError, Unauthorized, UnsupportedValue
from auricle.core.limits import CONTEXT, LANGUAGE, check
from auricle.core.sanitize import quoted
from auricle.frontend.capabilities import ProtocolCapabilities
from auricle.frontend.frontend import Frontend
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel, check_text_is_wanted
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.admission import first_message
from auricle.frontend.transport.disconnect import ClientDisconnected, ProtocolViolation
from auricle.frontend.transport.in_band_auth import InBandAuthProtocol, InBandAuthSocket
from auricle.frontend.transport.live_sessions import LiveSession, Record
from auricle.frontend.transport.request_errors import json_fault

CAPABILITIES = ProtocolCapabilities(
    route="WS /v1/twilio",
    page="telephones.md",
    language="language",
    keywords="context",
    channels="tracks",
)


# The messages of Twilio's media streams. No I/O. Names and fields are Twilio's.

SAMPLE_RATE = 8_000  # Hz
ENCODING = "pcm_mulaw"
_MU_LAW = "audio/x-mulaw"
_TRACKS = ("inbound", "outbound")
_LONGEST = 65_536  # characters of a message; 20 ms of audio have 214
# A name on the transcript bus is part of a subject, where other characters have a meaning.
_SID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
KEY_PARAMETER, LANGUAGE_PARAMETER, CONTEXT_PARAMETER = "api_key", "language", "context"


class MediaFormat(msgspec.Struct, frozen=True, rename="camel"):
    encoding: str
    sample_rate: int
    channels: int = 1


class StartFields(msgspec.Struct, frozen=True, rename="camel"):
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


class TwilioStart(msgspec.Struct, frozen=True, tag_field="event", tag="start"):
    start: StartFields


class Media(msgspec.Struct, frozen=True, tag_field="event", tag="media"):
    media: MediaFields


class Stop(msgspec.Struct, frozen=True, tag_field="event", tag="stop"):
    """The stream or the call has ended."""


Message = Connected | TwilioStart | Media | Stop
_KNOWN = ("connected", "start", "media", "stop")
_JSON: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class _Named(msgspec.Struct, frozen=True):
    event: str


def parse_message(text: str) -> Message | None:
    """Parse a message; None for one without a meaning here, such as `dtmf` and `mark`.

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
    """A stream of a call: its options, and the client's key."""

    call: str
    stream: str
    tracks: tuple[str, ...]
    language: str | None = None
    context: str = ""
    secret: str | None = field(default=None, repr=False)

    @classmethod
    def begun_by(cls, start: StartFields) -> Call:
        """Return the call that `start` describes. Raises UnsupportedValue with the field."""
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
        named = given.get(LANGUAGE_PARAMETER)
        context = given.get(CONTEXT_PARAMETER, "")
        check(LANGUAGE_PARAMETER, named, LANGUAGE)
        language = spoken_language(named)
        check(CONTEXT_PARAMETER, context, CONTEXT)
        secret = given.get(KEY_PARAMETER)
        return cls(start.call_sid, start.stream_sid, tracks, language, context, secret)


def _check_format(given: MediaFormat) -> None:
    if (given.encoding, given.sample_rate, given.channels) != (_MU_LAW, SAMPLE_RATE, 1):
        raise UnsupportedValue(
            f"mediaFormat must be {_MU_LAW} at {SAMPLE_RATE} Hz with 1 channel", "mediaFormat"
        )


# `WS /v1/twilio`: a stream of a telephone call, whose text goes to the transcript bus.
#
# Each track is a session of its own. Callers hang up without waiting for text, so the end of the
# connection ends the audio, but not the session.

NAME = "twilio"
_MOST_BEFORE_START = 8  # messages, of a client without a checked key


def twilio_protocol(frontend: Frontend, access: Access) -> InBandAuthProtocol:
    return InBandAuthProtocol(
        NAME, partial(_serve, frontend, access), lambda: check_text_is_wanted(frontend)
    )


async def _serve(frontend: Frontend, access: Access, socket: InBandAuthSocket) -> None:
    """Serve one stream until its text is on the bus. Raises AuricleError if it fails."""
    call = await _begun(frontend, socket)
    client = _client(access, call, socket)
    frontend.check_language(call.language)
    live = frontend.live_sessions
    channels: dict[str, TextChannel] = {}
    first: LiveSession | None = None
    async with AsyncExitStack() as sessions:
        for track in call.tracks:
            session = await sessions.enter_async_context(
                live.session(Record(NAME, socket.address), client, socket.host)
            )
            if first is None:
                first = session
            else:
                session.belongs_to(first)
            options = ChannelOptions(
                sample_rate=SAMPLE_RATE,
                encoding=ENCODING,
                language=call.language,
                context=call.context,
                call=call.call,
                part=f"{track}-{call.stream}",
            )
            channels[track] = TextChannel(frontend, session, options)
        engine = SessionEngine(frontend, *channels.values())
        await engine.follow(_read(frontend, socket, engine, channels))


async def _begun(frontend: Frontend, socket: InBandAuthSocket) -> Call:
    """Return the call once its `start` has been received, in the time that a session's may take."""
    seconds = frontend.settings.start_timeout_seconds
    return await with_timeout(seconds, _start_of(socket, seconds), "the start message")


async def _start_of(socket: InBandAuthSocket, seconds: float) -> Call:
    for _ in range(_MOST_BEFORE_START):
        text = await first_message(socket.receive(seconds, "the start message"))
        message = parse_message(text)
        if isinstance(message, TwilioStart):
            return Call.begun_by(message.start)
        if message is not None and not isinstance(message, Connected):
            break
    raise ProtocolError("the start message must come before others")


def _client(access: Access, call: Call, socket: InBandAuthSocket) -> ClientAccount:
    """Return the client whose key was sent: in the call's parameters, or in a header."""
    if call.secret is not None:
        return access.holder(call.secret, "live")
    if access.needs_keys and "authorization" not in socket.headers:
        raise Unauthorized(f'no API key; send it as <Parameter name="{KEY_PARAMETER}"> of <Stream>')
    return access.client(socket.headers, "live")


async def _read(
    frontend: Frontend,
    socket: InBandAuthSocket,
    engine: SessionEngine,
    channels: Mapping[str, TextChannel],
) -> None:
    """Feed the channels until the call is over, or draining ends its sessions."""
    idle = frontend.settings.idle_timeout_seconds
    while True:
        try:
            text = await engine.receive(lambda: socket.receive(idle, "the next media message"))
        except ProtocolViolation:
            raise
        except ClientDisconnected:
            return
        if text is None:
            socket.goes()
            return
        message = parse_message(text)
        if isinstance(message, Media):
            await _take(frontend, channels, message)
        elif isinstance(message, Stop):
            return
        elif isinstance(message, TwilioStart):
            raise ProtocolError("a connection has one start message")


async def _take(frontend: Frontend, channels: Mapping[str, TextChannel], message: Media) -> None:
    payload, track = message.media.payload, message.media.track
    channel = channels.get(track)
    if channel is None:
        raise ProtocolError(f"media of the track {quoted(track)}, which start did not name")
    frontend.metrics.bytes("websocket", len(payload))
    await channel.take(payload)
