"""`WS /v1/vapi`: one call of Vapi's, with a session for each channel of its audio."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from auricle.frontend.channel import Channel, follow
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.live import LiveSession, Record
from auricle.frontend.doors.sockets import ClientSocket, SocketProtocol
from auricle.frontend.frontend import Frontend
from auricle.frontend.listening.interleaved import Interleaved
from auricle.frontend.vapi.messages import (
    SPEAKERS,
    Start,
    error_message,
    parse_options,
    parse_start,
    response,
)
from auricle.messages.sessions import Final, Partial
from auricle.tasks import Interrupted

NAME = "vapi"


def vapi_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v1/vapi`, for the frontend's event loop."""
    calls = VapiCalls(frontend)
    return SocketProtocol(NAME, calls.serve, error_message, check=calls.check)


class VapiCalls:
    """Serves the calls of `/v1/vapi`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    def check(self, query: str) -> None:
        """Raise BadRequest, before the handshake, if the query's options cannot be served."""
        self._frontend.check_model(parse_options(query).model or None)

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one call until it is over, which Vapi says by leaving: then ClientGone is raised.

        Raises AuricleError if it fails.
        """
        options = parse_options(socket.query_string)
        start = await self._begun(socket)
        live = self._frontend.live_sessions
        sessions: list[LiveSession] = [socket]
        async with AsyncExitStack() as further:
            for _ in range(1, start.channels):
                another = live.session(Record(NAME), socket.client, socket.sharer)
                sessions.append(await further.enter_async_context(another))
            channels = [
                Channel(
                    *(self._frontend, session, start.sample_rate, "pcm_s16le"),
                    language=options.language or None,
                    context=options.context,
                    call=socket.session,
                    part=speaker,
                )
                for session, speaker in zip(sessions, SPEAKERS, strict=False)
            ]

            async def told(number: int, event: Partial | Final) -> None:
                if message := response(event, SPEAKERS[number]):
                    await socket.send(message)

            await follow(channels, self._read(socket, channels), told)

    async def _begun(self, socket: ClientSocket) -> Start:
        seconds = self._frontend.settings.start_timeout_seconds
        try:
            text, _ = await socket.receive(seconds, "the start message")
        except Interrupted:
            raise about_to_go() from None
        return parse_start(text)

    async def _read(self, socket: ClientSocket, channels: Sequence[Channel]) -> None:
        """Feed the channels until the server leaves and nobody speaks."""
        idle = self._frontend.settings.idle_timeout_seconds
        interleaved = Interleaved(len(channels), sample_bytes=2)
        door = self._frontend.front_door
        while not door.ends(lambda: all(channel.resting for channel in channels)):
            try:
                text, data = await socket.receive(idle, "the next audio packet")
            except Interrupted:
                continue
            if text is not None:
                continue  # whatever Vapi says of the call, only its audio is for a transcriber
            self._frontend.metrics.bytes("websocket", len(data))
            for channel, samples in zip(channels, interleaved.split(data), strict=True):
                await channel.take(samples)
        socket.goes_at(channels[0].heard_samples)
