"""AudioSocket, Asterisk's protocol for a call's audio, on a TCP port."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from auricle.core.aio import TimeSlice, with_timeout
from auricle.core.errors import ProtocolError
from auricle.frontend.capabilities import ProtocolCapabilities
from auricle.frontend.frontend import Frontend
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel, check_text_is_wanted
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.addresses import address_of, host_of
from auricle.frontend.transport.admission import shutting_down
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.tcp import TcpConnection, TcpProtocol

CAPABILITIES = ProtocolCapabilities(route="AudioSocket", page="telephones.md")


# The frames of AudioSocket: one byte for the kind, two for the length, and a payload. No I/O.

_HEADER_BYTES = 3


class AudioSocketKind(IntEnum):
    """The kinds of frames without audio."""

    HANGUP = 0x00
    UUID = 0x01
    DTMF = 0x03
    ERROR = 0xFF


# 16-bit mono PCM, little-endian; Hz by kind. Older versions of Asterisk send the first one only.
AUDIO_RATES = {
    0x10: 8_000,
    0x11: 12_000,
    0x12: 16_000,
    0x13: 24_000,
    0x14: 32_000,
    0x15: 44_100,
    0x16: 48_000,
    0x17: 96_000,
    0x18: 192_000,
}
_KINDS = frozenset(AUDIO_RATES) | frozenset(AudioSocketKind)
# The only message to Asterisk, whose dialplan continues after it.
HANG_UP = bytes(_HEADER_BYTES)


@dataclass(frozen=True)
class AudioSocketFrame:
    kind: int
    payload: bytes


class FrameParser:
    """Cuts the bytes of a connection into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    @property
    def held(self) -> int:
        """The number of bytes that are not a frame yet."""
        return len(self._bytes)

    def next(self) -> AudioSocketFrame | None:
        """Return the next frame, None if it is not complete yet.

        Raises ProtocolError for an unknown kind; no frame after it can be read.
        """
        if len(self._bytes) < _HEADER_BYTES:
            return None
        kind = self._bytes[0]
        if kind not in _KINDS:
            raise ProtocolError(f"not a frame of AudioSocket: it has no kind 0x{kind:02x}")
        end = _HEADER_BYTES + int.from_bytes(self._bytes[1:_HEADER_BYTES], "big")
        if len(self._bytes) < end:
            return None
        payload = bytes(self._bytes[_HEADER_BYTES:end])
        del self._bytes[:end]
        return AudioSocketFrame(kind, payload)


# One connection of AudioSocket: a call that Asterisk sends, whose text goes to the transcript bus.
#
# Asterisk accepts only audio and a hang-up, so clients receive no errors; the frontend's log has
# the reason. After a hang-up the dialplan continues.

NAME = "audiosocket"
_MOST_BEFORE_AUDIO = 64  # digits that were dialled


def audiosocket_protocol(frontend: Frontend, access: Access) -> TcpProtocol:
    async def serve(connection: TcpConnection) -> None:
        check_text_is_wanted(frontend)
        client = access.keyless(frontend.settings.keyless_tenant, "live")
        call = _Call(frontend, connection)
        begun = await call.begun()
        if begun is None:
            return
        name, audio = begun
        record = Record(NAME, address_of(connection.client))
        host = host_of(connection.client)
        async with frontend.live_sessions.session(record, client, host) as session:
            rate = AUDIO_RATES[audio.kind]
            # A dialplan may give all calls the same id, so the part distinguishes them.
            options = ChannelOptions(sample_rate=rate, call=name, part=session.session)
            channel = TextChannel(frontend, session, options)
            call.engine.channels.append(channel)
            await call.engine.follow(call.read(channel, audio))

    return TcpProtocol(NAME, serve, lambda _error: HANG_UP)


class _Call:
    def __init__(self, frontend: Frontend, connection: TcpConnection) -> None:
        self._frontend = frontend
        self._connection = connection
        self.engine = SessionEngine(frontend)
        self._parser = FrameParser()
        self._time_slice = TimeSlice()

    async def begun(self) -> tuple[str, AudioSocketFrame] | None:
        """Return the call's id and its first audio; None if the call ends before.

        Raises DeadlineExceeded if they take longer together than the start of a session may.
        """
        seconds = self._frontend.settings.start_timeout_seconds
        return await with_timeout(
            seconds, self._opening(seconds), "the call's id and its first audio"
        )

    async def _opening(self, seconds: float) -> tuple[str, AudioSocketFrame] | None:
        first = await self._next(seconds, "the call's id")
        if first is None:
            return None
        if first.kind != AudioSocketKind.UUID or len(first.payload) != 16:
            raise ProtocolError("the first frame must be the call's id, a UUID of 16 bytes")
        for _ in range(_MOST_BEFORE_AUDIO):
            frame = await self._next(seconds, "the call's audio")
            if frame is None:
                return None
            if frame.kind in AUDIO_RATES:
                return str(UUID(bytes=first.payload)), frame
        raise ProtocolError("the call's id must be followed by its audio")

    async def read(self, channel: TextChannel, audio: AudioSocketFrame) -> None:
        """Feed the channel until the call is over, or draining ends its session."""
        idle = self._frontend.settings.idle_timeout_seconds
        frame: AudioSocketFrame | None = audio
        while frame is not None:
            if frame.kind == audio.kind:
                self._frontend.metrics.bytes("tcp", len(frame.payload))
                await channel.take(frame.payload)
            elif frame.kind != AudioSocketKind.DTMF:
                raise ProtocolError(f"a frame of kind 0x{frame.kind:02x} cannot come within a call")
            frame = await self._next(idle, "the next audio")
        with suppress(ClientDisconnected):
            await self._connection.send(HANG_UP)

    async def _next(self, seconds: float, what: str) -> AudioSocketFrame | None:
        """Return the next frame; None once the call is over, or draining ends its session.

        Raises Overloaded if draining begins before there is a session.
        """
        while (frame := self._parser.next()) is None:
            try:
                data = await self.engine.receive(lambda: self._connection.read(seconds, what))
            except ClientDisconnected:
                return None
            if data is None:
                if not self.engine.channels:
                    raise shutting_down()
                return None
            self._parser.feed(data)
            self._connection.parsed(self._parser.held)
        await self._time_slice.yield_if_expired()
        return None if frame.kind in (AudioSocketKind.HANGUP, AudioSocketKind.ERROR) else frame
