"""The pools of workers: placement, calls with deadlines, retries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Self, TypeVar

from msgspec import Struct

from auricle.core.errors import (
    AuricleError,
    DeadlineExceeded,
    FeaturesMissing,
    Overloaded,
    WindowsMissing,
    WorkerUnavailable,
)
from auricle.dynamo import WORKER_PULSE, KvIndex, Pulses, RemoteEndpoint, Runtime
from auricle.load.report_cache import WorkerLoads
from auricle.load.reports import LOAD_TOPIC, PoolKind, WorkerLoad
from auricle.protocol.recognition import DecodeReply, DecodeRequest, EncodeReply, EncodeRequest

log = logging.getLogger(__name__)
T = TypeVar("T")
Reply = TypeVar("Reply", bound=Struct)
Held = Callable[[], Awaitable[Mapping[int, int]]]
_NOTHING: Mapping[int, int] = MappingProxyType({})
# Waits before the first, second, third and every later attempt: long enough for a failed worker
# to be replaced, short enough for live captions.
_BACK_OFF_SECONDS = (0.0, 0.2, 0.6, 1.5)
_AHEAD_SECONDS = 1.0


class Pool:
    """The instances of one component; a segment is placed on the least loaded one.

    Instances without a load report are compared by the segments that this processor has placed
    on them. Shared by all sessions of a processor; used on the event loop only.
    """

    # Whether a draining worker is left within a segment, or only at the segment's end.
    leaves_at_once = False

    def __init__(
        self,
        endpoint: RemoteEndpoint,
        deadline_seconds: float,
        attempts: int,
        pulses: Pulses | None = None,
        *,
        planned: Callable[[], bool] = lambda: False,
    ) -> None:
        """`deadline_seconds` bounds each attempt. `pulses` detects workers that hang before that.
        `planned` returns whether planners are starting an empty pool.
        """
        self._planned = planned
        self._endpoint = endpoint
        self._pulses = pulses
        self._deadline = deadline_seconds
        self._attempts = attempts
        self._placed: Counter[int] = Counter()
        self.loads = WorkerLoads()  # from the workers' reports

    @classmethod
    def of(
        cls,
        runtime: Runtime,
        component: PoolKind,
        deadline_seconds: float,
        attempts: int,
        **options: Any,
    ) -> Self:
        """Return the pool of a component, whose load reports it follows."""
        endpoint = runtime.client(component, "generate", local=True)
        pulses = runtime.pulses(component, endpoint, WORKER_PULSE)
        pool = cls(endpoint, deadline_seconds, attempts, pulses, **options)
        runtime.subscribe(component, LOAD_TOPIC, WorkerLoad, pool.loads.update)
        return pool

    async def ready(self, seconds: float) -> None:
        """Wait until the pool has an instance. Raises DeadlineExceeded after `seconds`."""
        await self._endpoint.wait_for_instances(seconds)

    async def starting(self) -> bool:
        """Whether the pool was empty and its first worker is still starting.

        Raises as `RemoteEndpoint.listed` does.
        """
        return self._planned() and not await self._endpoint.listed()

    def placement(self) -> Placement:
        return Placement(self)

    async def place(
        self,
        avoid: frozenset[int] = frozenset(),
        held: Mapping[int, int] = _NOTHING,
        preferred: int | None = None,
    ) -> int:
        """Choose an instance, if possible none of `avoid`; the caller must `release` it.

        It is `preferred` if that is available. Otherwise it is the least loaded instance, or a
        nearly equal one that has more of the prompt in its prefix cache; `held` maps instances to
        cached tokens. Raises WorkerUnavailable if no instance appears before the deadline.
        """
        candidates = self.loads.open(await self._endpoint.usable(self._deadline, avoid))
        instance = preferred
        if instance is None or instance not in candidates:
            instance = self.loads.best(candidates, self._placed, held)
        self.loads.sent(instance)
        self._placed[instance] += 1
        return instance

    def release(self, instance: int) -> None:
        """Undo one call of `place`."""
        self._placed[instance] -= 1
        if self._placed[instance] <= 0:
            del self._placed[instance]

    def left(self, instance: int) -> bool:
        """Whether the instance must be left within the segment: it hangs, fails or drains."""
        draining = self.leaves_at_once and self.loads.draining(instance)
        return draining or self._endpoint.suspected(instance)

    async def call(self, instance: int, request: Struct, reply: type[Reply]) -> Reply:
        """Make one attempt on `instance`; it fails early if the instance hangs."""
        calling = self._endpoint.call(request, reply, instance, self._deadline)
        if self._pulses is not None:
            calling = self._pulses.during(instance, calling)
        answer: Reply = await calling
        return answer

    async def attempt(self, work: Callable[[], Awaitable[T]], *, wait_for_room: bool) -> T:
        """Run `work` until it succeeds, raises an error that is not retryable, or has failed
        in all attempts; return its result or raise its last error.

        Overloaded does not count as a failed attempt: with `wait_for_room` it is retried until
        the pool's deadline, without it is raised at once.
        """
        give_up = time.monotonic() + self._deadline
        failures = tries = 0
        while True:
            await asyncio.sleep(_BACK_OFF_SECONDS[min(tries, len(_BACK_OFF_SECONDS) - 1)])
            tries += 1
            try:
                return await work()
            except Overloaded:
                if not wait_for_room or time.monotonic() > give_up:
                    raise
            except AuricleError as error:
                failures += 1
                if not error.retryable or failures == self._attempts:
                    raise
                log.warning("attempt %d failed, trying again: %s", failures, error)

    async def attempt_within(
        self,
        seconds: float,
        what: str,
        work: Callable[[], Awaitable[T]],
        *,
        wait_for_room: bool = True,
    ) -> T:
        """As `attempt`, for at most `seconds`; then raise the last error.

        Without one raise DeadlineExceeded, which names `what`.
        """
        last: AuricleError | None = None

        async def once() -> T:
            nonlocal last
            try:
                return await work()
            except AuricleError as error:
                last = error
                raise

        try:
            async with asyncio.timeout(seconds):
                return await self.attempt(once, wait_for_room=wait_for_room)
        except TimeoutError:
            late = DeadlineExceeded(f"{what} took longer than {seconds:g} s")
            raise last or late from None

    async def ask(self, request: Struct, reply: type[Reply], seconds: float, what: str) -> Reply:
        """Return the answer of any instance; see `attempt_within`."""
        placement = Placement(self)
        try:
            return await placement.ask(request, reply, seconds, what)
        finally:
            placement.leave()


class Placement:
    """The instance of a pool that a session uses; replaced when that instance fails."""

    def __init__(self, pool: Pool, preferred: int | None = None) -> None:
        self.failures = 0  # calls that failed, except with Overloaded
        # Where the last call failed with an unexpected error: the fault of this worker or of the
        # request.
        self.doubted: int | None = None
        self._pool = pool
        self._preferred = preferred
        self._instance: int | None = None
        self._failed: set[int] = set()

    @property
    def name(self) -> str:
        """The current instance's id in hex; empty if there is none."""
        return "" if self._instance is None else f"{self._instance:x}"

    @property
    def current(self) -> int | None:
        """The current instance."""
        return self._instance

    async def instance(self, held: Held | None = None) -> int:
        """Return the current instance, or place one; `held` is called only to place one."""
        self.leave_if_left()
        if self._instance is None:
            tokens = _NOTHING if held is None else await held()
            self._instance = await self._pool.place(
                frozenset(self._failed), tokens, self._preferred
            )
        return self._instance

    def leave_if_left(self) -> bool:
        """Release the instance if it must be left within the segment; return whether it was."""
        left = self._instance is not None and self._pool.left(self._instance)
        if left:
            self.leave()
        return left

    def move(self) -> None:
        """Release an instance that failed; later ones are placed elsewhere if possible."""
        if self._instance is not None:
            self._failed.add(self._instance)
        self.leave()

    def leave(self) -> None:
        """Release the instance, if there is one."""
        if self._instance is not None:
            self._pool.release(self._instance)
            self._instance = None

    async def call(
        self,
        request: Struct,
        reply: type[Reply],
        *,
        stay_when_full: bool = False,
        held: Held | None = None,
    ) -> Reply:
        """Call the instance once; release it if it fails or is full.

        With `stay_when_full` a full worker is kept. An unexpected error becomes WorkerUnavailable,
        unless the previous call failed in the same way on another worker: then it is the request's
        fault.
        """
        instance = await self.instance(held)
        try:
            answer = await self._pool.call(instance, request, reply)
        except (WindowsMissing, FeaturesMissing):  # the worker has not failed
            raise
        except AuricleError as error:
            if error.code == AuricleError.code and self.doubted in (None, instance):
                self.doubted = instance
                self.failures += 1
                self.move()
                raise WorkerUnavailable(f"instance {instance:x} failed: {error}") from error
            full = isinstance(error, Overloaded)
            if error.retryable and not (stay_when_full and full):
                self.failures += not full
                self.move()
            raise
        self.doubted = None
        return answer

    async def ask(
        self,
        request: Struct,
        reply: type[Reply],
        seconds: float,
        what: str,
        *,
        wait_for_room: bool = True,
    ) -> Reply:
        """Return the answer, retrying on other instances; see `Pool.attempt_within`."""
        call = partial(self.call, request, reply)
        return await self._pool.attempt_within(seconds, what, call, wait_for_room=wait_for_room)


class EncodePool(Pool):
    """Calls to encode workers."""

    leaves_at_once = True  # another worker only needs the features

    async def encode_ahead(self, instance: int, request: EncodeRequest) -> EncodeReply:
        """Make one attempt, of at most 1 s, on `instance`. Raises AuricleError.

        No result is needed yet, and the session's next decode must not wait for it long.
        """
        reply: EncodeReply = await self._endpoint.call(
            request, EncodeReply, instance, min(_AHEAD_SECONDS, self._deadline)
        )
        return reply


class PdPool(Pool):
    """Calls to PD workers. The caller retries, as windows may have to be encoded again."""

    def __init__(
        self,
        endpoint: RemoteEndpoint,
        deadline_seconds: float,
        attempts: int,
        pulses: Pulses | None = None,
        kv_index: KvIndex | None = None,
    ) -> None:
        """With `kv_index`, placement also considers which worker has the prompt's prefix."""
        super().__init__(endpoint, deadline_seconds, attempts, pulses)
        self._kv_index = kv_index

    async def decode(self, placement: Placement, request: DecodeRequest) -> DecodeReply:
        """Make one attempt. A partial decode keeps a full worker, which has the session's KV.

        Raises AuricleError: WindowsMissing if the worker could not read a window.
        """
        stay, held = not request.final, self._asking(request)
        return await placement.call(request, DecodeReply, stay_when_full=stay, held=held)

    def _asking(self, request: DecodeRequest) -> Held | None:
        if self._kv_index is None:
            return None
        # Only the head can be cached: it is followed by the segment's own audio.
        return partial(self._kv_index.held, request.head, request.tenant)


class TranslatePool(Pool):
    """Calls to translate workers."""

    leaves_at_once = True  # another worker only has to read the prompt again
