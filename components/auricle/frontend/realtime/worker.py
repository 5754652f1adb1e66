"""Realtime sessions behind Dynamo's own frontend, over Dynamo's request plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from auricle.errors import AuricleError
from auricle.frontend.doors.access.keys import ANYONE
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.live import Record
from auricle.frontend.frontend import Frontend
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.frontend.realtime.session import RealtimeSession
from auricle.tasks import cancelled

_DYNAMO = "dynamo"  # all of its clients count as one
_WAITING_EVENTS = 64


class RealtimeWorker:
    """Serves at most `max_sessions`, with those of this frontend's sockets, on its event loop.

    Dynamo's frontend has no API keys, so all sessions belong to the tenant `default`.
    """

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._client = Client(ANYONE)

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
                await RealtimeSession(
                    *(self._frontend, session.client.tenant, session.session, waiting.put),
                    *(session.heard, session.trace),
                ).run(incoming)
        except AuricleError as error:
            await waiting.put(events.error_event(error))
