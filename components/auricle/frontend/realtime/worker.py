"""Realtime sessions behind Dynamo's own frontend, over Dynamo's request plane."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from auricle.errors import UNFORESEEN, AuricleError
from auricle.frontend.doors.access.keys import DEFAULT_TENANT
from auricle.frontend.doors.session_log import log_ended
from auricle.frontend.frontend import Frontend
from auricle.frontend.realtime import events
from auricle.frontend.realtime.events import ServerEvent
from auricle.frontend.realtime.session import RealtimeSession
from auricle.process.logs import about
from auricle.tasks import cancelled

log = logging.getLogger(__name__)
_DYNAMO = "dynamo"  # all of its clients count as one
_WAITING_EVENTS = 64


class RealtimeWorker:
    """Serves at most `max_sessions`, with those of this frontend's sockets, on its event loop.

    Dynamo's frontend has no API keys, so all sessions belong to the tenant `default`.
    """

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._metrics = frontend.metrics

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
        name = f"sess_{uuid.uuid4().hex}"
        door = self._frontend.front_door
        outcome, heard = "done", _Heard()
        try:
            with (
                door.counted(_DYNAMO) as seat,
                about(session=name, tenant=DEFAULT_TENANT),
                self._frontend.tracer.span("session", protocol="dynamo", session=name) as trace,
            ):
                seat.confirm()
                async with door.admitted(DEFAULT_TENANT, name, seat):
                    session = RealtimeSession(
                        self._frontend, DEFAULT_TENANT, name, waiting.put, heard, trace
                    )
                    await session.run(incoming)
        except asyncio.CancelledError:
            outcome = "client_gone"
            raise
        except AuricleError as error:
            outcome = error.code
            if error.told is not None:
                log.error("session %s failed: %s", name, error)
            await waiting.put(events.error_event(error))
        except Exception:
            log.exception("session %s failed with an unexpected error", name)
            outcome = AuricleError.code
            await waiting.put(events.error_event(AuricleError(UNFORESEEN)))
        finally:
            self._metrics.ended(outcome)
            log_ended("session", name, "dynamo", heard.seconds, outcome)


class _Heard:
    """Counts the audio of a session that has no audio rate."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def __call__(self, seconds: float) -> None:
        self.seconds += seconds
