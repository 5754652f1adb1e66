"""`WS /v1/realtime`: realtime sessions over the frontend's own WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator

from auricle.errors import AuricleError, ProtocolError
from auricle.frontend.doors.sockets import ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.frontend.realtime.session import RealtimeSession
from auricle.tasks import Interrupted

SUBPROTOCOLS = ("realtime",)


class RealtimeProtocol:
    """Serves the sessions of `/v1/realtime`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until draining ends it. Raises ClientGone when the client leaves, and
        AuricleError if the session fails."""
        self._frontend.check_model(socket.query.get("model"))

        async def emit(event: ServerEvent) -> None:
            await socket.send(events.encode(event))

        session = RealtimeSession(
            self._frontend,
            socket.client.tenant,
            socket.session,
            emit,
            socket.heard,
            socket.trace,
        )
        await session.announce()
        await session.run(self._incoming(socket, session))

    async def _incoming(self, socket: ClientSocket, session: RealtimeSession) -> AsyncIterator[str]:
        """Yield the client's messages, until draining ends the session.

        The protocol has no event for that, so the reason of the close frame says how much audio
        was transcribed.
        """
        door = self._frontend.front_door
        while not door.ends(lambda: session.resting):
            try:
                text, _ = await socket.receive(
                    self._frontend.settings.realtime_idle_seconds, "the next event of the client"
                )
            except Interrupted:
                continue
            if text is None:
                raise ProtocolError("binary frames are not part of this protocol; send JSON events")
            self._frontend.metrics.bytes("websocket", len(text))
            yield text
        socket.goes_at(session.resume_at)

    @staticmethod
    def error(error: AuricleError) -> str:
        """Return the last event of a session that failed."""
        return events.encode(events.error_event(error))
