"""Wyoming, the protocol of Home Assistant, on a TCP port."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from auricle import __version__
from auricle.checkpoints.languages import language_code, spoken_language
from auricle.core.aio import TimeSlice, with_timeout
from auricle.core.errors import AuricleError, ProtocolError, TooLarge, UnsupportedValue
from auricle.core.limits import LANGUAGE, check
from auricle.frontend.audio.stalls import Reading
from auricle.frontend.capabilities import ProtocolCapabilities
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import Text
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import address_of, host_of
from auricle.frontend.transport.admission import shutting_down
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.options import context_of
from auricle.frontend.transport.request_errors import json_fault
from auricle.frontend.transport.tcp import TcpConnection, TcpProtocol
from auricle.protocol.sessions import SegmentFinal

CAPABILITIES = ProtocolCapabilities(
    route="Wyoming",
    page="wyoming.md",
    committed="transcript-chunk",
    language="language",
    keywords="transcript_terms",
)


# The events of Wyoming, from bytes and to bytes. No I/O.
#
# An event is a line of JSON (its header, which has the lengths of the rest), further JSON, and a
# payload.

T = TypeVar("T")
_HEADER_BYTES = 8_192
_DATA_BYTES = 65_536


class Transcribe(msgspec.Struct, frozen=True):
    """Options for the next audio; unknown fields have no effect."""

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
    text: str | None = None


class _Header(msgspec.Struct, frozen=True):
    type: str
    data: dict[str, Any] | None = None
    data_length: int | None = None
    payload_length: int | None = None


@dataclass(frozen=True)
class Event:
    kind: str
    data: dict[str, Any]
    payload: bytes = b""

    def read_as(self, wanted: type[T]) -> T:
        """Return the event's data as `wanted`. Raises ProtocolError with the field."""
        try:
            return msgspec.convert(self.data, wanted)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"{self.kind}: {json_fault(error)}") from None


class EventParser:
    """Cuts the bytes of a connection into events of bounded size."""

    def __init__(self, payload_bytes: int) -> None:
        """A payload has at most `payload_bytes`."""
        self._payload_bytes = payload_bytes
        self._bytes = bytearray()
        self._header: _Header | None = None

    def feed(self, data: bytes) -> None:
        self._bytes += data

    @property
    def held(self) -> int:
        """The number of bytes that are not an event yet."""
        return len(self._bytes)

    def next(self) -> Event | None:
        """Return the next event, None if it is not complete yet.

        Raises ProtocolError or TooLarge; no event after that can be read.
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
            data |= _decoded(self._taken(data_length), dict[str, Any])
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


def encode(kind: str, **data: Any) -> bytes:
    """Return an event's bytes; fields that are None are left out."""
    body = msgspec.json.encode({name: value for name, value in data.items() if value is not None})
    header = {"type": kind, "data_length": len(body)}
    return msgspec.json.encode(header) + b"\n" + body


def error(failure: AuricleError) -> bytes:
    """Return the event for a failure. `retry_after_seconds` is an extension of Wyoming's."""
    after = failure.retry_after_seconds or None
    return encode("error", text=failure.for_client, code=failure.code, retry_after_seconds=after)


def info(model: str, languages: tuple[str, ...]) -> bytes:
    """Return the description of this server, the answer to `describe`."""
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


class WyomingTranscript:
    """Turns the segments of one session into one transcript. No I/O.

    Its chunks are never revised; joined they are its text.
    """

    def __init__(self) -> None:
        self._finals: list[str] = []
        self._language: str | None = None
        self._sent: str | None = None  # the text of the chunks so far; None before the first

    def on_text(self, event: Text) -> bytes:
        """Return what to tell of an event: its text that will not change, if that is new."""
        self._language = language_code(event.language) or self._language
        if isinstance(event, SegmentFinal):
            if event.text:
                self._finals.append(event.text)
            return self._grown(self._text)
        return self._grown(" ".join([*self._finals, event.committed]) if event.committed else "")

    def whole(self) -> bytes:
        begun = b"" if self._sent is not None else self._begin()
        whole = encode("transcript", text=self._text, language=self._language)
        return begun + whole + encode("transcript-stop")

    @property
    def _text(self) -> str:
        return " ".join(self._finals)

    def _grown(self, text: str) -> bytes:
        sent = self._sent or ""
        if len(text) <= len(sent):
            return b""
        begun = b"" if self._sent is not None else self._begin()
        self._sent = text
        return begun + encode("transcript-chunk", text=text[len(sent) :])

    def _begin(self) -> bytes:
        self._sent = ""
        return encode("transcript-start", language=self._language)


# One connection of Wyoming, with one session for each stretch of audio.
#
# Home Assistant opens a connection for each spoken command, and reads once the audio has ended.

NAME = "wyoming"
_MOST_HELD = 1 << 16  # bytes received after an utterance that waits for its text


def wyoming_protocol(frontend: Frontend, access: Access, languages: tuple[str, ...]) -> TcpProtocol:
    """Return Wyoming, for a port of the frontend; `languages` are the names of the model's."""
    server_info = info(frontend.model, languages)

    async def serve(connection: TcpConnection) -> None:
        client = access.keyless(frontend.settings.keyless_tenant, "live")
        await _Conversation(frontend, connection, client, server_info).run()

    return TcpProtocol(NAME, serve, error)


class _Conversation:
    def __init__(
        self, frontend: Frontend, connection: TcpConnection, client: ClientAccount, info: bytes
    ) -> None:
        self._frontend = frontend
        self._connection = connection
        self._client = client
        self._info = info
        self._parser = EventParser(frontend.settings.max_frame_bytes)
        self._transcribe = Transcribe()
        self._time_slice = TimeSlice()

    async def run(self) -> None:
        """Serve the connection until its client leaves. Raises AuricleError if it must end."""
        seconds, what = self._frontend.settings.keep_alive_seconds, "the next event"
        while True:
            event = await with_timeout(seconds, self._next(seconds, what, leave_at_once=True), what)
            if event.kind in ("audio-start", "audio-chunk"):
                await self._utterance(event)
            elif event.kind == "audio-stop":
                await self._connection.send(WyomingTranscript().whole())
            else:
                await self._answer(event)

    async def _answer(self, event: Event) -> None:
        """Answer an event without audio; unknown ones are to be dropped."""
        if event.kind == "describe":
            await self._connection.send(self._info)
        elif event.kind == "ping":
            await self._connection.send(encode("pong", text=event.read_as(Ping).text))
        elif event.kind == "transcribe":
            self._transcribe = event.read_as(Transcribe)

    async def _next(self, seconds: float, what: str, *, leave_at_once: bool) -> Event:
        """Return the next event. Raises Overloaded if draining ends the connection: at once with
        `leave_at_once`, otherwise at the drain's deadline."""
        admission = self._frontend.admission
        while (event := self._parser.next()) is None:
            data = await admission.unless_draining(
                lambda: leave_at_once, lambda: self._connection.read(seconds, what)
            )
            if data is None:
                # Half a command must not look like a whole one, so its text is not sent.
                raise shutting_down()
            self._parser.feed(data)
            self._connection.parsed(self._parser.held)
        await self._time_slice.yield_if_expired()
        return event

    # ── one utterance ───────────────────────────────────────────────────────

    async def _utterance(self, first: Event) -> None:
        wanted, self._transcribe = self._transcribe, Transcribe()
        audio = first.read_as(AudioFormat)
        _check_format(audio)
        self._frontend.check_model(wanted.name)
        check("language", wanted.language, LANGUAGE)
        language = spoken_language(wanted.language)
        self._frontend.check_language(language)
        context = _context(wanted)
        peer = self._connection.client
        record = Record(NAME, address_of(peer))
        live = self._frontend.live_sessions
        async with live.session(record, self._client, host_of(peer)) as session:
            options = ChannelOptions(sample_rate=audio.rate, language=language, context=context)
            transcript = WyomingTranscript()

            async def on_text(event: Text) -> None:
                if chunk := transcript.on_text(event):
                    await self._connection.send(chunk)

            async def last() -> None:
                if engine.failure is not None:
                    return  # half a command must not look like a whole one
                with suppress(ClientDisconnected):  # it may leave once it has the text
                    await self._connection.send(transcript.whole())

            channel = TextChannel(self._frontend, session, options, on_text)
            engine = SessionEngine(self._frontend, channel)
            reading = self._read(engine.reading, channel, audio, first)
            await engine.run(reading, last=last)

    async def _read(
        self, reading: Reading, channel: TextChannel, audio: AudioFormat, event: Event
    ) -> None:
        """Read up to the audio's end, then only whether the client stays."""
        idle = self._frontend.settings.idle_timeout_seconds
        while event.kind != "audio-stop":
            if event.kind in ("audio-start", "audio-chunk"):
                if event.read_as(AudioFormat) != audio:
                    raise UnsupportedValue("the audio's format cannot change before audio-stop")
                self._frontend.metrics.bytes("tcp", len(event.payload))
                await channel.take(event.payload)
            else:
                await self._answer(event)
            with reading.waiting():
                event = await self._next(idle, "the next audio-chunk", leave_at_once=False)
        await channel.end()
        while self._parser.held < _MOST_HELD:
            self._parser.feed(await self._connection.read_on())
        await asyncio.Event().wait()  # the writer ends the utterance


def _check_format(audio: AudioFormat) -> None:
    for name, value in (("width", audio.width), ("channels", audio.channels)):
        right = {"width": 2, "channels": 1}[name]
        if value != right:
            raise UnsupportedValue(f"{name} {value} cannot be used: it must be {right}", name)


def _context(wanted: Transcribe) -> str:
    words = (*(wanted.transcript_names or ()), *(wanted.transcript_terms or ()))
    return context_of("transcript_names and transcript_terms", words)
