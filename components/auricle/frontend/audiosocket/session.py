"""One connection of AudioSocket: a call that Asterisk sends, whose text goes to the transcript bus.

Asterisk can be sent nothing but audio and a hang-up, so its clients hear of no error; the
frontend's log has the reason. After a hang-up the dialplan goes on.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from auricle.errors import AuricleError, ProtocolError
from auricle.frontend.audiosocket.frames import (
    AUDIO_RATES,
    HANG_UP,
    Frame,
    FrameParser,
    Kind,
)
from auricle.frontend.channel import Channel, check_text_is_wanted, follow
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.addresses import host_of
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.live import Record
from auricle.frontend.doors.tcp import TcpConnection, TcpProtocol
from auricle.frontend.frontend import Frontend
from auricle.tasks import Interrupted, LoopTurn

NAME = "audiosocket"
_MOST_BEFORE_AUDIO = 64  # digits that were dialled


def audiosocket_protocol(frontend: Frontend, access: Access) -> TcpProtocol:
    """Return AudioSocket, for a port of the frontend."""

    async def serve(connection: TcpConnection) -> None:
        check_text_is_wanted(frontend)
        client = access.keyless(frontend.settings.keyless_tenant, "live")
        call = _Call(frontend, connection)
        begun = await call.begun()
        if begun is None:
            return
        name, audio = begun
        host = host_of(connection.client)
        async with frontend.live_sessions.session(Record(NAME), client, host) as session:
            rate = AUDIO_RATES[audio.kind]
            # A dialplan may give all calls the same id, so the part is what tells them apart.
            channel = Channel(
                *(frontend, session, rate, "pcm_s16le"), call=name, part=session.session
            )
            await follow([channel], call.read(channel, audio))

    return TcpProtocol(NAME, serve, _told)


def _told(_error: AuricleError) -> bytes:
    return HANG_UP


class _Call:
    """What Asterisk sends of one call."""

    def __init__(self, frontend: Frontend, connection: TcpConnection) -> None:
        self._frontend = frontend
        self._connection = connection
        self._parser = FrameParser()
        self._turn = LoopTurn()

    async def begun(self) -> tuple[str, Frame] | None:
        """Return the call's id, and its first audio; None if it is over before."""
        seconds = self._frontend.settings.start_timeout_seconds
        first = await self._next(seconds, "the call's id")
        if first is None:
            return None
        if first.kind != Kind.UUID or len(first.payload) != 16:
            raise ProtocolError("the first frame must be the call's id, a UUID of 16 bytes")
        for _ in range(_MOST_BEFORE_AUDIO):
            frame = await self._next(seconds, "the call's audio")
            if frame is None:
                return None
            if frame.kind in AUDIO_RATES:
                return str(UUID(bytes=first.payload)), frame
        raise ProtocolError("the call's id must be followed by its audio")

    async def read(self, channel: Channel, audio: Frame) -> None:
        """Feed the channel until the call is over, or the server leaves and nobody speaks."""
        idle = self._frontend.settings.idle_timeout_seconds
        frame: Frame | None = audio
        while frame is not None:
            if frame.kind == audio.kind:
                self._frontend.metrics.bytes("tcp", len(frame.payload))
                await channel.take(frame.payload)
            elif frame.kind != Kind.DTMF:
                raise ProtocolError(f"a frame of kind 0x{frame.kind:02x} cannot come within a call")
            frame = await self._next(idle, "the next audio", channel)
        with suppress(ClientGone):
            await self._connection.send(HANG_UP)

    async def _next(
        self, seconds: float, what: str, channel: Channel | None = None
    ) -> Frame | None:
        """Return the next frame; None once the call is over, or the server leaves."""
        door = self._frontend.front_door
        while (frame := self._parser.next()) is None:
            if door.ends(lambda: channel is None or channel.resting):
                return None
            try:
                self._parser.feed(await self._connection.read(seconds, what))
            except Interrupted:
                continue
            except ClientGone:
                return None
        await self._turn.give_way()
        return None if frame.kind in (Kind.HANGUP, Kind.ERROR) else frame
