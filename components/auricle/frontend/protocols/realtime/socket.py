"""`WS /v1/realtime`: realtime sessions over the frontend's own WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError, ProtocolError
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.realtime.events import ServerEvent
from auricle.frontend.protocols.realtime.session import RealtimeSession
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.websockets import ClientSocket

SUBPROTOCOLS = ("realtime",)


class RealtimeProtocol:
    """Serves the sessions of `/v1/realtime`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until draining ends it.

        Raises ClientDisconnected when the client leaves, AuricleError if the session fails.
        """
        self._frontend.check_model(socket.query.get("model"))

        async def emit(event: ServerEvent) -> None:
            await socket.send(events.encode(event))

        session = RealtimeSession(self._frontend, socket, emit)
        seconds = self._frontend.settings.realtime_idle_seconds

        async def receive() -> str | None:
            message = await session.engine.receive(
                lambda: socket.receive(seconds, "the next event of the client")
            )
            if message is None:
                return None
            text, _ = message
            if text is None:
                raise ProtocolError("binary frames are not part of this protocol; send JSON events")
            self._frontend.metrics.bytes("websocket", len(text))
            return text

        await session.announce()
        # The protocol has no event for draining, so the reason of the close frame gives the
        # position up to which the audio is transcribed.
        socket.end_early(await session.serve(receive))

    @staticmethod
    def error(error: AuricleError) -> str:
        return events.encode(events.error_event(error))


# Realtime sessions behind Dynamo's own frontend, over Dynamo's request plane.

_DYNAMO = "dynamo"  # all of its clients count as one
_WAITING_EVENTS = 64


class RealtimeWorker:
    """Serves sessions, which share `max_sessions` with this frontend's sockets, on its event loop.

    Dynamo's frontend has no API keys, so all sessions belong to the tenant `default`.
    """

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._client = ClientAccount(ANYONE)

    async def serve(
        self, incoming: AsyncIterator[dict[str, Any]]
    ) -> AsyncGenerator[ServerEvent, None]:
        """Yield the server events of one session. Closing the iterator ends the session."""
        waiting: asyncio.Queue[ServerEvent] = asyncio.Queue(_WAITING_EVENTS)
        session = asyncio.create_task(self._run(incoming, waiting))
        following: asyncio.Task[ServerEvent] | None = None
        try:
            while not session.done() or not waiting.empty():
                following = following or asyncio.create_task(waiting.get())
                await asyncio.wait({session, following}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    event, following = following.result(), None
                    yield event
        finally:
            await cancelled([task for task in (session, following) if task is not None])

    async def _run(
        self, incoming: AsyncIterator[dict[str, Any]], waiting: asyncio.Queue[ServerEvent]
    ) -> None:
        """Run one session. Its failure is sent as its last event."""
        live = self._frontend.live_sessions
        try:
            async with live.session(Record(_DYNAMO, _DYNAMO), self._client, _DYNAMO) as session:
                realtime = RealtimeSession(self._frontend, session, waiting.put)

                async def receive() -> dict[str, Any] | None:
                    with realtime.engine.reading.waiting():
                        return await anext(incoming, None)

                await realtime.serve(receive)
        except AuricleError as error:
            await waiting.put(events.error_event(error))
