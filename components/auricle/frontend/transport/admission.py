"""Admission of clients, first by this frontend's own limit, then by a processor; and draining."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from auricle.audio.pcm import milliseconds
from auricle.core.aio import Interrupted, with_timeout
from auricle.core.errors import (
    AuricleError,
    DeadlineExceeded,
    Overloaded,
    RateLimited,
    WorkerUnavailable,
)
from auricle.frontend.link.processor_link import ProcessorEndpoints
from auricle.frontend.link.served_pools import ServedPools
from auricle.frontend.transport.slots import SessionSlot, SessionSlots
from auricle.load.fairness import share_of
from auricle.protocol.sessions import (
    ADMISSION_SECONDS,
    AdmitSession,
    Admitted,
    WithdrawAdmission,
    Withdrawn,
)

T = TypeVar("T")
_ANSWER_SECONDS = 2.0
_RECONNECT_SECONDS = 1.0
_SHARE_RETRY_SECONDS = 5.0
# A session whose slot was taken away leaves its processor within this time.
_LEAVING_SECONDS = 2.0
_READY = "ready"
_PROCESSORS_ASKED = 3  # processors asked before a client is refused: they share the same workers


def shutting_down() -> Overloaded:
    """Return the error for a client that arrives while this frontend is draining."""
    return Overloaded("this server is shutting down; connect again", _RECONNECT_SECONDS)


async def first_message(receiving: Awaitable[T]) -> T:
    """Await a client's first message. Raises Overloaded if draining begins before it comes."""
    try:
        return await receiving
    except Interrupted:
        raise shutting_down() from None


def farewell(samples: int) -> str:
    """Return the message to the client of a session that draining ends; its audio up to session
    sample `samples` (16 kHz) is transcribed."""
    return f"this server is shutting down; audio up to {milliseconds(samples)} ms was transcribed"


def _opaque(client: str) -> str:
    """Return a digest of a client's name, by which processors count it."""
    return blake2b(client.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Readiness:
    """Whether sessions can be served: with `processors` that can be called now.

    `status` is `ready`, or the reason why clients should not be sent here. `missing` are the pools
    without a worker. A frontend can be ready without an optional pool.
    """

    status: str
    processors: int
    missing: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return self.status == _READY


class SessionAdmission:
    """Admits sessions up to this frontend's limit, asks processors about new ones, and drains.

    It refuses new sessions and recordings while a pool that all of them need is missing.

    All methods must be called on one event loop.
    """

    def __init__(
        self,
        processors: ProcessorEndpoints,
        max_sessions: int,
        clock: Callable[[], float] = time.monotonic,
        pools: ServedPools | None = None,
    ) -> None:
        """`pools` are those that the settings promise."""
        self.pools = pools or ServedPools()
        self._processors = processors
        self._clock = clock
        self._drain_deadline = math.inf
        self._recordings_deadline = math.inf
        self._interrupts: set[Callable[[], None]] = set()
        self._recordings = 0
        self._slots = SessionSlots(max_sessions, clock)

    def begin_drain(self, seconds: float, recording_seconds: float | None = None) -> int:
        """Stop admission, and return how many sessions and recordings are still open.

        Segments that are still open after `seconds` are cut, and recordings still in progress after
        `recording_seconds` (as many by default) are refused; later calls do not postpone that.
        The caller polls this until it returns 0.
        """
        now = self._clock()
        self._drain_deadline = min(self._drain_deadline, now + seconds)
        wait = seconds if recording_seconds is None else recording_seconds
        self._recordings_deadline = min(self._recordings_deadline, now + wait)
        for interrupt in tuple(self._interrupts):
            interrupt()
        return self.open + self._recordings

    @property
    def open(self) -> int:
        """The number of live sessions."""
        return self._slots.taken

    async def readiness(self) -> Readiness:
        """Whether clients should be sent to this frontend."""
        awaited, missing = self.pools.awaited, self.pools.missing
        if self.draining:
            return Readiness("shutting down", 0, missing)
        processors = len(await self._processors.open.instances())
        gone = awaited if processors else ("processor", *awaited)
        status = f"no {' and no '.join(gone)} is running" if gone else _READY
        return Readiness(status, processors, missing)

    @property
    def draining(self) -> bool:
        """Whether this frontend is draining; see `must_end`."""
        return self._drain_deadline < math.inf

    def must_end(self, between_segments: Callable[[], bool]) -> bool:
        """Whether draining ends a session now: between two segments, or at the drain's deadline."""
        return self.draining and (self._clock() >= self._drain_deadline or between_segments())

    async def unless_draining(
        self, between_segments: Callable[[], bool], receive: Callable[[], Awaitable[T]]
    ) -> T | None:
        """Return what `receive` returns; None if draining ends the session before, see `must_end`.

        Draining must interrupt `receive`: see `interrupting`.
        """
        while not self.must_end(between_segments):
            with suppress(Interrupted):
                return await receive()
        return None

    @contextmanager
    def slot(self, client: str, *, shared: bool = False) -> Iterator[SessionSlot]:
        """Count a live session of `client` while the block runs; yields its slot.

        The slot can be taken away for the sake of another client: see `SessionSlots`. With `shared`
        the client may hold only its share of all slots. Raises Overloaded if full or draining,
        RateLimited beyond the share.
        """
        if self.draining:
            raise shutting_down()
        if shared and self._slots.held(client) >= (share := share_of(self._slots.limit)):
            raise RateLimited(
                f"this API key has {share} live sessions open, its share of the "
                f"{self._slots.limit} that this server has for all keys; end one first",
                _SHARE_RETRY_SECONDS,
            )
        slot = self._slots.take(client)
        if slot is None:
            raise Overloaded(f"all {self._slots.limit} sessions are in use")
        try:
            yield slot
        finally:
            slot.release()

    @contextmanager
    def recording(self) -> Iterator[asyncio.Future[None]]:
        """Count a recording while the block runs; draining waits for it.

        Yields a future that fails with Overloaded once recordings cannot be waited for any more.
        Raises Overloaded if this frontend is draining, WorkerUnavailable if a pool is missing.
        """
        if self.draining:
            raise shutting_down()
        self.pools.check()
        over = asyncio.get_running_loop().create_future()

        def check_deadline() -> None:
            if self._clock() >= self._recordings_deadline and not over.done():
                again = "this server is shutting down; send the recording again"
                over.set_exception(Overloaded(again, _RECONNECT_SECONDS))
                over.exception()  # retrieved, so that asyncio does not log it

        self._recordings += 1
        try:
            with self.interrupting(check_deadline):
                yield over
        finally:
            self._recordings -= 1

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call `interrupt` at each poll of a drain while the block runs.

        A session then checks whether it must end, even if its client sends nothing.
        """
        self._interrupts.add(interrupt)
        try:
            yield
        finally:
            self._interrupts.discard(interrupt)

    @asynccontextmanager
    async def admitted(
        self,
        tenant: str,
        name: str,
        slot: SessionSlot,
        *,
        resumes: bool = False,
        priority: int = 0,
        others: bool = False,
        bounded: bool = False,
    ) -> AsyncIterator[None]:
        """Ask processors to admit the live session `name`, which lasts as long as the block.

        One that `resumes` was admitted before; the load does not keep it out. Others come in
        the order of their `priority`, highest first. For `others` and `bounded` see
        `AdmitSession`.

        Raises Overloaded if a processor refused and none admitted the session, WorkerUnavailable
        if a pool is missing, unless it `resumes`. If no processor answers within its deadline, the
        session is admitted, and waits for one. The slot and the admission are returned as soon as
        the block ends, so that clients that connect briefly do not occupy capacity.
        """
        if not resumes:
            self.pools.check()
        if slot.instead_of is not None:  # it has the place that this session is to get
            with suppress(DeadlineExceeded):
                await with_timeout(_LEAVING_SECONDS, slot.instead_of.gone.wait(), "leaving")
        instance = await self._admitting(
            AdmitSession(tenant, name, _opaque(slot.client), resumes, priority, others, bounded)
        )
        expected_until = self._clock() + ADMISSION_SECONDS
        try:
            yield
        finally:
            slot.release()  # free before a processor has taken the admission back
            if instance is not None and self._clock() < expected_until:
                await self._withdraw(WithdrawAdmission(tenant, name), instance)

    async def _admitting(self, request: AdmitSession) -> int | None:
        """Return the processor that admitted the session, if any answered."""
        refused: Overloaded | None = None
        found = await self._processors.admit.instances()
        instances = self._processors.loads.staying(found)
        for instance in random.sample(instances, min(_PROCESSORS_ASKED, len(instances))):
            try:
                await self._processors.admit.call(request, Admitted, instance, _ANSWER_SECONDS)
            except Overloaded as error:
                refused = error
            except (WorkerUnavailable, DeadlineExceeded):
                continue
            else:
                return instance
        if refused is not None:
            raise refused
        return None

    async def _withdraw(self, request: WithdrawAdmission, instance: int) -> None:
        with suppress(AuricleError):  # otherwise the processor forgets it by itself
            await self._processors.withdraw.call(request, Withdrawn, instance, _ANSWER_SECONDS)
