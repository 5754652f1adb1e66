"""Realtime sessions for Dynamo's own frontend: the same session over its request plane."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from auricle.errors import UNFORESEEN, AuricleError
from auricle.frontend.access.keys import DEFAULT_TENANT
from auricle.frontend.backend import Backend
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.frontend.realtime.session import RealtimeSession
from auricle.logs import about
from auricle.tasks import cancelled

log = logging.getLogger(__name__)
_WAITING_EVENTS = 64


class RealtimeWorker:
    """At most `max_sessions`. Dynamo's frontend has no API keys, so all are one tenant."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._metrics = backend.metrics

    async def serve(
        self, incoming: AsyncIterator[dict[str, Any]]
    ) -> AsyncGenerator[ServerEvent, None]:
        """Server events of one session; close it to end the session."""
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
        """A failure is the session's last event."""
        name = f"sess_{uuid.uuid4().hex}"
        door = self._backend.front_door
        try:
            with (
                door.counted(),
                about(session=name, tenant=DEFAULT_TENANT),
                self._backend.tracer.span("session", protocol="dynamo", session=name) as trace,
            ):
                stretch = await door.stretch(DEFAULT_TENANT)
                session = RealtimeSession(
                    self._backend, DEFAULT_TENANT, name, waiting.put, _free, trace, stretch
                )
                await session.run(incoming)
            self._metrics.ended("done")
        except AuricleError as error:
            self._metrics.ended(error.code)
            await waiting.put(events.error_event(error))
        except Exception:
            log.exception("a session failed in a way nobody thought of")
            self._metrics.ended(AuricleError.code)
            await waiting.put(events.error_event(AuricleError(UNFORESEEN)))


async def _free(_seconds: float) -> None:
    """Nobody's budget is charged."""
