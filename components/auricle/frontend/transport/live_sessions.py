"""Lets live sessions and recordings in, and logs, counts and traces each, whatever its transport.

Transports read from their clients and report how a session ended; the rest is here.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

from auricle.core.aio import first_failure_or, outcome_of
from auricle.core.errors import UNFORESEEN, AuricleError
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.transport.access.limits import ClientAccount, KeyLimits
from auricle.frontend.transport.admission import SessionAdmission
from auricle.frontend.transport.connections import in_use
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.session_log import log_ended, log_refused
from auricle.frontend.transport.slots import SessionSlot
from auricle.load.fairness import slot_preempted
from auricle.process.logs import about
from auricle.process.tracing import NO_TRACE, Tracer

log = logging.getLogger(__name__)
T = TypeVar("T")
_PREFIXES = {"session": "sess", "recording": "rec"}


@contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Log an unexpected exception of `what`, and raise an AuricleError instead."""
    try:
        yield
    except (AuricleError, ClientDisconnected):
        raise
    except Exception:
        log.exception("%s failed with an unexpected error", what)
        raise AuricleError(UNFORESEEN) from None


@dataclass
class Record:
    """The log record of one session or recording; `audio_seconds` were processed so far.

    A client that is refused before its session `began` is logged with its `address`; with None,
    where its connection ends.
    """

    protocol: str
    address: str | None = None
    kind: Literal["session", "recording"] = "session"
    name: str = field(init=False)
    tenant: str = ""
    trace: str = NO_TRACE
    audio_seconds: float = 0.0
    began: bool = False
    logged: bool = False

    def __post_init__(self) -> None:
        self.name = f"{_PREFIXES[self.kind]}_{uuid.uuid4().hex}"


class LiveSession:
    """One session that was let in. Call its methods on the event loop.

    `slots` are its places, and the places of its call's other sessions, see `belongs_to`.
    """

    def __init__(
        self, client: ClientAccount, record: Record, slots: Sequence[SessionSlot] = ()
    ) -> None:
        self.client = client
        self.record = record
        self.slots = list(slots)

    @property
    def fairness_key(self) -> str:
        """The name under which the client shares capacity: the tenant, or without keys the host."""
        return self.slots[0].client if self.slots else self.client.tenant

    def belongs_to(self, call: LiveSession) -> None:
        """This is a further channel of `call`: speech in one protects the places of both."""
        call.slots += self.slots
        self.slots = call.slots

    def spoke(self) -> None:
        """There is speech, so no other client gets this session's place."""
        for slot in self.slots:
            slot.spoke()

    def ping(self, answered: Callable[[], None]) -> None:
        """Call `answered` when the client has shown that it is connected, after all that it sent
        before. Transports without pings take that for granted.
        """
        answered()

    @property
    def session(self) -> str:
        return self.record.name

    @property
    def trace(self) -> str:
        return self.record.trace

    async def charge(self, seconds: float) -> None:
        """Count `seconds` of audio; waits until the client's rate limit allows more."""
        self.record.audio_seconds += seconds
        await self.client.charge(seconds)


class LiveSessions:
    """Admits and logs the sessions and recordings of one frontend, on its event loop."""

    def __init__(
        self,
        admission: SessionAdmission,
        key_limits: KeyLimits,
        metrics: FrontendMetrics,
        tracer: Tracer,
    ) -> None:
        self._admission = admission
        self._key_limits = key_limits
        self._metrics = metrics
        self._tracer = tracer

    @asynccontextmanager
    async def session(
        self, record: Record, client: ClientAccount, host: str
    ) -> AsyncGenerator[LiveSession, None]:
        """Let a session of `client` in while the block runs; then log and count how it ended.

        Without keys `host` identifies the client. Raises ClientDisconnected, and
        AuricleError if the session is refused or fails.
        """
        with self.recorded(record):
            async with self.admitted(record, client, client.fairness_key(host)) as (slot,):
                slot.confirm()  # its client has begun
                async with self.running(record, client, [slot]):
                    yield LiveSession(client, record, [slot])

    @asynccontextmanager
    async def admitted(
        self,
        record: Record,
        client: ClientAccount,
        fairness_key: str,
        more: Sequence[str] = (),
        *,
        resumes: bool = False,
    ) -> AsyncGenerator[list[SessionSlot], None]:
        """Admit a session while the block runs, and those named `more`; yields the slot of each.

        They are let in together or not at all: within the key's limits, the frontend's and the
        load. `fairness_key` is whom they count for among others. Call it within `recorded`. Raises
        RateLimited or Overloaded.
        """
        record.tenant, bounded = client.tenant, client.key.max_sessions is not None
        async with AsyncExitStack() as held:
            slots = []
            for name in (record.name, *more):
                held.enter_context(self._key_limits.one(client))
                slot = held.enter_context(
                    self._admission.slot(fairness_key, shared=client.others and not bounded)
                )
                admitted = self._admission.admitted(
                    *(client.tenant, name, slot),
                    resumes=resumes,
                    priority=client.key.rank,
                    others=client.others,
                    bounded=bounded,
                )
                await held.enter_async_context(admitted)
                slots.append(slot)
            yield slots

    @asynccontextmanager
    async def running(
        self,
        record: Record,
        client: ClientAccount,
        slots: Sequence[SessionSlot],
        *,
        resumes: bool = False,
    ) -> AsyncGenerator[None, None]:
        """Count and trace a session that was admitted while the block runs, and log its end.

        Each of its `slots` counts as a session of its key. Raises RateLimited beyond the key's
        limit, unless it `resumes`: see `Peers.place`. Raises Overloaded once one of the slots goes
        to another client.
        """
        with self.recorded(record):
            try:
                async with AsyncExitStack() as counted:
                    for slot in slots:
                        stay = await counted.enter_async_context(
                            client.session("live", resumes=resumes)
                        )
                        slot.on_preempted(partial(stay.end, slot_preempted()))
                        if slot.preempted:
                            raise slot_preempted()
                    record.began = True
                    with self._traced(record), in_use():
                        yield
            finally:
                for slot in slots:
                    slot.leave()

    async def recording(
        self,
        record: Record,
        client: ClientAccount,
        answer: Callable[[], Awaitable[T]],
        *,
        stored: bool = False,
    ) -> T:
        """Let a recording of `client` in; return what `answer` does. Call it within `recorded`.

        One that is only `stored` now, for a job, is none of the recordings that a key may have at
        a time, and is not logged as one. Raises RateLimited or Overloaded if it is refused, also
        at the end of a drain.
        """
        record.tenant = client.tenant

        async def counted() -> T:
            entered = client.connected if stored else client.session
            async with entered("recordings"):
                record.began = not stored
                return await answer()

        with (
            self._key_limits.one(client),
            self._admission.recording() as over,
            self._traced(record),
            in_use(),
        ):
            answering = asyncio.create_task(counted())
            return await first_failure_or(answering, [asyncio.create_task(outcome_of(over))])

    @contextmanager
    def recorded(self, record: Record) -> Iterator[None]:
        """Log and count how a session or recording ends, once, or that its client is refused.

        Raises ClientDisconnected and AuricleError as the block does; unexpected errors become
        an AuricleError.
        """
        # gRPC cancels the task of a client that has left.
        outcome, failure = ClientDisconnected.outcome, None
        try:
            with mapped_errors(f"{record.kind} {record.name}"):
                yield
            outcome = "done"
        except ClientDisconnected as gone:
            outcome = gone.outcome
            raise
        except AuricleError as error:
            outcome, failure = error.code, error
            raise
        finally:
            if not record.logged and (record.began or outcome != "done"):
                record.logged = True
                self._log_end(record, outcome, failure)

    @contextmanager
    def connection(self, protocol: str, address: str) -> Iterator[Record]:
        """Log and count the error that ends a connection, unless one of its sessions ended with it.

        For protocols whose connections can have several sessions, or none; the block may mark the
        connection's record as logged. Raises ClientDisconnected and AuricleError as the block
        does; an unexpected error becomes an AuricleError.
        """
        record = Record(protocol, address)
        try:
            with mapped_errors(f"a connection of {protocol}"):
                yield record
        except AuricleError as error:
            if not record.logged and not error.logged:
                self._log_end(record, error.code, error)
            raise

    def _log_end(self, record: Record, outcome: str, failure: AuricleError | None) -> None:
        if failure is not None:
            failure.logged = True
        if record.kind == "session":
            self._metrics.ended(outcome)
        else:
            self._metrics.recording_ended(outcome)
        if record.began:
            with about(tenant=record.tenant):
                written_for_client = failure is not None and failure.public_message is None
                log_ended(
                    *(record.kind, record.name, record.protocol, record.audio_seconds, outcome),
                    # Some protocols cannot tell their client the reason.
                    str(failure) if written_for_client else "",
                )
                if failure is not None and not written_for_client:
                    log.error("%s %s failed: %s", record.kind, record.name, failure)
        elif failure is not None and record.address is not None:
            log_refused(record.address, failure)

    @contextmanager
    def _traced(self, record: Record) -> Iterator[None]:
        """One trace, with the session's name in all log records."""
        ids = {"session": record.name, "tenant": record.tenant}
        if record.kind == "session":
            span = self._tracer.span("session", protocol=record.protocol, **ids)
        else:
            span = self._tracer.span("recording", **ids)
        with about(**ids), span as record.trace:
            yield
