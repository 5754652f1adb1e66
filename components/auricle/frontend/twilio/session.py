"""`WS /v1/twilio`: a stream of a telephone call, whose text goes to the transcript bus.

Each track is a session of its own. A caller hangs up without waiting for text, so the end of the
connection is the end of the audio, and not of the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from auricle.errors import ProtocolError, Unauthorized
from auricle.frontend.channel import Channel, check_text_is_wanted, follow
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.late_sockets import LateProtocol, LateSocket
from auricle.frontend.doors.live import Record
from auricle.frontend.frontend import Frontend
from auricle.frontend.twilio.messages import (
    ENCODING,
    KEY_PARAMETER,
    SAMPLE_RATE,
    Call,
    Connected,
    Media,
    Start,
    Stop,
    parse_message,
)
from auricle.quoting import quoted
from auricle.tasks import Interrupted

NAME = "twilio"
_MOST_BEFORE_START = 8  # messages, of a client that nobody knows yet


def twilio_protocol(frontend: Frontend, access: Access) -> LateProtocol:
    """Return the protocol of `/v1/twilio`, for the frontend's event loop."""
    calls = TwilioCalls(frontend, access)
    return LateProtocol(NAME, calls.serve, lambda: check_text_is_wanted(frontend))


class TwilioCalls:
    """Serves the streams of `/v1/twilio`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend, access: Access) -> None:
        self._frontend = frontend
        self._access = access

    async def serve(self, socket: LateSocket) -> None:
        """Serve one stream until its text is on the bus. Raises AuricleError if it fails."""
        call = await self._begun(socket)
        client = self._client(call, socket)
        live = self._frontend.live_sessions
        channels: dict[str, Channel] = {}
        async with AsyncExitStack() as sessions:
            for track in call.tracks:
                session = await sessions.enter_async_context(
                    live.session(Record(NAME), client, socket.host)
                )
                channels[track] = Channel(
                    *(self._frontend, session, SAMPLE_RATE, ENCODING),
                    language=call.language,
                    context=call.context,
                    call=call.call,
                    part=f"{track}-{call.stream}",
                )
            await follow(list(channels.values()), self._read(socket, channels))

    async def _begun(self, socket: LateSocket) -> Call:
        """Return the call, once its `start` has come."""
        seconds = self._frontend.settings.start_timeout_seconds
        for _ in range(_MOST_BEFORE_START):
            try:
                message = parse_message(await socket.receive(seconds, "the start message"))
            except Interrupted:
                raise about_to_go() from None
            if isinstance(message, Start):
                return Call.begun_by(message.start)
            if message is not None and not isinstance(message, Connected):
                break
        raise ProtocolError("the start message must come before others")

    def _client(self, call: Call, socket: LateSocket) -> Client:
        """Return the client whose key was sent: in the call's parameters, or in a header."""
        if call.secret is not None:
            return self._access.holder(call.secret, "live")
        if self._access.needs_keys and "authorization" not in socket.headers:
            raise Unauthorized(
                f'no API key; send it as <Parameter name="{KEY_PARAMETER}"> of <Stream>'
            )
        return self._access.client(socket.headers, "live")

    async def _read(self, socket: LateSocket, channels: Mapping[str, Channel]) -> None:
        """Feed the channels until the call is over, or the server leaves and nobody speaks."""
        idle = self._frontend.settings.idle_timeout_seconds
        door = self._frontend.front_door
        while True:
            if door.ends(lambda: _resting(channels)):
                socket.goes()
                return
            try:
                message = parse_message(await socket.receive(idle, "the next media message"))
            except Interrupted:
                continue
            except ClientGone:
                return
            if isinstance(message, Media):
                await self._take(channels, message)
            elif isinstance(message, Stop):
                return
            elif isinstance(message, Start):
                raise ProtocolError("a connection has one start message")

    async def _take(self, channels: Mapping[str, Channel], message: Media) -> None:
        payload, track = message.media.payload, message.media.track
        channel = channels.get(track)
        if channel is None:
            raise ProtocolError(f"media of the track {quoted(track)}, which start did not name")
        self._frontend.metrics.bytes("websocket", len(payload))
        await channel.take(payload)


def _resting(channels: Mapping[str, Channel]) -> bool:
    return all(channel.resting for channel in channels.values())
