"""Live sessions that come as gRPC calls: authentication, admission, deadlines."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from auricle.audio.pcm import milliseconds
from auricle.errors import UNFORESEEN, AuricleError, Overloaded
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.access.key_limits import KeyLimits
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.front_door import FrontDoor
from auricle.frontend.doors.rpc.incoming import Context, Incoming, warn
from auricle.frontend.doors.rpc.messages import CallMessages
from auricle.frontend.doors.seats import Seat, seat_lost
from auricle.frontend.doors.session_log import log_ended, log_refused
from auricle.frontend.metrics import FrontendMetrics
from auricle.process.logs import about
from auricle.process.tracing import NO_TRACE, Tracer

log = logging.getLogger(__name__)
_RECONNECT_SECONDS = 1.0


class LiveCall:
    """One call that was let in. Call its methods on the event loop.

    Methods raise ClientGone once the client has left. `audio_seconds` counts the audio
    processed so far. One task may `receive` at a time.
    """

    def __init__(
        self, context: Context, client: Client, slow_reader_seconds: float, session: str, seat: Seat
    ) -> None:
        """A `send` may take `slow_reader_seconds`."""
        self._context = context
        self._messages = CallMessages(context, slow_reader_seconds)
        self.client = client
        self.session = session
        self.audio_seconds = 0.0
        self.trace = NO_TRACE
        self.farewell: str | None = None  # why the session ends early, without an error
        self._seat = seat
        seat.on_loss(lambda: self._messages.fail(seat_lost()))

    async def receive(self, seconds: float, what: str) -> bytes | None:
        """Return the next message, None after the last one.

        Raises DeadlineExceeded if nothing came for `seconds`, naming `what`; Interrupted after
        `interrupt`.
        """
        if self._seat.taken_away:
            raise seat_lost()
        message = await self._messages.receive(seconds, what)
        self._seat.confirm()
        return message

    async def warn(self, warnings: Sequence[str]) -> None:
        """Tell the client what has no effect. Call it before `send`."""
        await warn(self._context, warnings)

    async def heard(self, seconds: float) -> None:
        """Count `seconds` of audio; waits until the client's rate limit allows more."""
        self.audio_seconds += seconds
        await self.client.charge(seconds)

    async def send(self, message: bytes) -> None:
        """Send a message. Raises DeadlineExceeded if the client does not read."""
        await self._messages.send(message)

    def interrupt(self) -> None:
        """End the `receive` in progress, if any, with Interrupted."""
        self._messages.interrupt()

    def goes_at(self, samples: int) -> None:
        """The session will end early, as UNAVAILABLE; the client may go on elsewhere.

        The audio up to session sample `samples` (16 kHz) is transcribed here.
        """
        end_ms = milliseconds(samples)
        self.farewell = f"this server is shutting down; audio up to {end_ms} ms was transcribed"

    async def release(self) -> None:
        """The session is over: nothing is received any more, and no deadline runs on."""
        await self._messages.release()


@dataclass
class _Session:
    """What is logged of one session; `call` is None until it has begun."""

    name: str
    protocol: str
    run: Callable[[LiveCall], Awaitable[None]]
    tenant: str = ""
    call: LiveCall | None = None


class LiveCalls:
    """Serves the live sessions of this frontend that come as calls, on one event loop."""

    def __init__(
        self,
        access: Access,
        front_door: FrontDoor,
        metrics: FrontendMetrics,
        tracer: Tracer,
        key_limits: KeyLimits,
        slow_reader_seconds: float,
    ) -> None:
        self._access = access
        self._front_door = front_door
        self._metrics = metrics
        self._tracer = tracer
        self._key_limits = key_limits
        self._slow_reader_seconds = slow_reader_seconds

    async def serve(
        self,
        incoming: Incoming,
        context: Context,
        protocol: str,
        run: Callable[[LiveCall], Awaitable[None]],
    ) -> None:
        """Serve one session until `run` is done. Raises AuricleError if it fails or is refused."""
        session = _Session(f"sess_{uuid.uuid4().hex}", protocol, run)
        try:
            await self._admitted(session, incoming, context)
        except ClientGone as gone:
            self._ended(session, incoming, gone.outcome)
        except asyncio.CancelledError:  # how gRPC says that the client has left
            self._ended(session, incoming, ClientGone.outcome)
            raise
        except AuricleError as error:
            self._ended(session, incoming, error.code, error)
            raise
        except Exception:
            log.exception("session %s failed with an unexpected error", session.name)
            failure = AuricleError(UNFORESEEN)
            self._ended(session, incoming, failure.code, failure)
            raise failure from None
        else:
            self._ended(session, incoming, "done")
            if session.call is not None and session.call.farewell is not None:
                raise Overloaded(session.call.farewell, _RECONNECT_SECONDS)

    async def _admitted(self, session: _Session, incoming: Incoming, context: Context) -> None:
        client = self._access.client(incoming.metadata, "live")
        session.tenant = client.tenant
        sharer = client.counts_as(incoming.host)
        with self._key_limits.one(client), self._front_door.counted(sharer) as seat:
            async with self._front_door.admitted(
                client.tenant, session.name, seat, priority=client.key.rank
            ):
                call = LiveCall(context, client, self._slow_reader_seconds, session.name, seat)
                session.call = call
                try:
                    with self._front_door.interrupting(call.interrupt):
                        async with client.session("live"):
                            await self._traced(session, call)
                finally:
                    await call.release()

    async def _traced(self, session: _Session, call: LiveCall) -> None:
        """Run the session within one trace, with its name in all log records."""
        with (
            about(session=session.name, tenant=session.tenant),
            self._tracer.span(
                "session", protocol=session.protocol, session=session.name, tenant=session.tenant
            ) as trace,
        ):
            call.trace = trace
            await session.run(call)

    def _ended(
        self, session: _Session, incoming: Incoming, outcome: str, error: AuricleError | None = None
    ) -> None:
        self._metrics.ended(outcome)
        if session.call is not None:
            seconds = session.call.audio_seconds
            with about(tenant=session.tenant):
                log_ended("session", session.name, session.protocol, seconds, outcome)
                if error is not None and error.told is not None:
                    log.error("session %s failed: %s", session.name, error)
        elif error is not None:
            log_refused(incoming.address, error)
