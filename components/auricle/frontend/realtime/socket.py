"""`WS /v1/realtime`: realtime sessions over a WebSocket of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator

from auricle.errors import AuricleError, ProtocolError
from auricle.frontend.backend import Backend
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.frontend.realtime.session import RealtimeSession
from auricle.frontend.sockets import ClientSocket
from auricle.tasks import Interrupted

SUBPROTOCOLS = ("realtime",)


class RealtimeProtocol:
    """Serves its sessions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def serve(self, socket: ClientSocket) -> None:
        """One session until the client leaves; raises AuricleError or ClientGone."""
        self._backend.check_model(socket.query.get("model"))

        async def emit(event: ServerEvent) -> None:
            await socket.send(events.encode(event))

        client = socket.client
        session = RealtimeSession(
            self._backend,
            client.tenant,
            socket.session,
            emit,
            client.charge,
            socket.trace,
            socket.stretch,
        )
        await session.announce()
        await session.run(self._incoming(socket, session))

    async def _incoming(self, socket: ClientSocket, session: RealtimeSession) -> AsyncIterator[str]:
        """What the client says, until this frontend goes: between two turns, or when it must.

        The dialect has no event for that: the connection's close says what was taken.
        """
        door = self._backend.front_door
        while not (door.last_call or (door.leaving and session.resting)):
            try:
                text, _ = await socket.receive(
                    self._backend.settings.realtime_idle_seconds, "the next event of the client"
                )
            except Interrupted:
                continue
            if text is None:
                raise ProtocolError("binary frames are not part of this protocol; send JSON events")
            self._backend.metrics.bytes("websocket", len(text))
            yield text
        socket.goes_at(session.resume_at)

    @staticmethod
    def error(error: AuricleError) -> str:
        """The last event of a session that failed."""
        return events.encode(events.error_event(error))
