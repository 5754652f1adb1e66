"""Lets in live sessions that begin within a connection, not with a WebSocket's handshake.

A connection may have several, one after the other or, for a call with two speakers, at once.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from auricle.errors import UNFORESEEN, AuricleError
from auricle.frontend.doors.access.key_limits import KeyLimits
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.front_door import FrontDoor
from auricle.frontend.doors.session_log import log_ended
from auricle.frontend.metrics import FrontendMetrics
from auricle.process.logs import about
from auricle.process.tracing import NO_TRACE, Tracer

log = logging.getLogger(__name__)


class LiveSession:
    """One session that was let in, named `session`; `audio_seconds` were processed so far."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session = f"sess_{uuid.uuid4().hex}"
        self.trace = NO_TRACE
        self.audio_seconds = 0.0
        self.began = False  # it was let in

    async def heard(self, seconds: float) -> None:
        """Count `seconds` of audio; waits until the client's rate limit allows more."""
        self.audio_seconds += seconds
        await self.client.charge(seconds)


class LiveSessions:
    """Applies to a session what a WebSocket passes at its handshake. Used on one event loop."""

    def __init__(
        self, front_door: FrontDoor, key_limits: KeyLimits, metrics: FrontendMetrics, tracer: Tracer
    ) -> None:
        self._front_door = front_door
        self._key_limits = key_limits
        self._metrics = metrics
        self._tracer = tracer

    @asynccontextmanager
    async def session(self, client: Client, host: str, protocol: str) -> AsyncIterator[LiveSession]:
        """Let a session of `client` in while the block runs; then log and count how it ended.

        `host` stands for the client where there are no keys. Raises RateLimited or Overloaded if
        it is not let in, and an AuricleError for whatever unforeseen the block raises.
        """
        session = LiveSession(client)
        try:
            with (
                self._key_limits.one(client),
                self._front_door.counted(client.counts_as(host)) as seat,
            ):
                seat.confirm()  # its client has begun
                async with (
                    self._front_door.admitted(
                        client.tenant, session.session, seat, priority=client.key.rank
                    ),
                    client.session("live"),
                ):
                    with self._traced(session, protocol):
                        yield session
        except ClientGone as gone:
            self._ended(session, protocol, gone.outcome)
            raise
        except AuricleError as error:
            self._ended(session, protocol, error.code)
            if error.told is not None:
                log.error("session %s failed: %s", session.session, error)
            raise
        except Exception:
            self._ended(session, protocol, AuricleError.code)
            log.exception("session %s failed with an unexpected error", session.session)
            raise AuricleError(UNFORESEEN) from None
        else:
            self._ended(session, protocol, "done")

    @contextmanager
    def _traced(self, session: LiveSession, protocol: str) -> Iterator[None]:
        """One trace, with the session's name in all log records."""
        tenant = session.client.tenant
        with (
            about(session=session.session, tenant=tenant),
            self._tracer.span(
                "session", protocol=protocol, session=session.session, tenant=tenant
            ) as session.trace,
        ):
            session.began = True
            yield

    def _ended(self, session: LiveSession, protocol: str, outcome: str) -> None:
        self._metrics.ended(outcome)
        if not session.began:
            return  # refusals are logged where their connection ends, up to a rate limit
        with about(tenant=session.client.tenant):
            log_ended("session", session.session, protocol, session.audio_seconds, outcome)
