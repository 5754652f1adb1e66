"""The encode and PD pools as a session sees them: pick, call, retry elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct

from auricle.errors import AuricleError, FeaturesMissing, Overloaded, WindowsMissing
from auricle.messages import DecodeReply, DecodeRequest, EncodeReply, EncodeRequest
from auricle.processor.worker_loads import WorkerLoads
from auricle.runtime import KvIndex, RemoteEndpoint

log = logging.getLogger(__name__)
T = TypeVar("T")
Held = Callable[[], Awaitable[Mapping[int, int]]]
_NOTHING: Mapping[int, int] = MappingProxyType({})
# Long enough for a worker to be replaced by another attempt, short enough to stay live.
_BACK_OFF_SECONDS = (0.0, 0.2, 0.6, 1.5)
_AHEAD_SECONDS = 1.0


class Pool:
    """One component's instances; segments are placed where there is most room.

    Where reports say nothing (yet), that is where this processor has placed fewest.
    """

    # Whether a worker that is to go is left within a segment, or at its end.
    leaves_at_once = False

    def __init__(self, endpoint: RemoteEndpoint, deadline_seconds: float, attempts: int) -> None:
        self._endpoint = endpoint
        self._deadline = deadline_seconds
        self._attempts = attempts
        self._placed: Counter[int] = Counter()
        self.loads = WorkerLoads()  # what the pool's workers report

    async def ready(self, seconds: float) -> None:
        """Until the pool has an instance; raises DeadlineExceeded."""
        await self._endpoint.wait_for_instances(seconds)

    async def place(
        self, avoid: frozenset[int] = frozenset(), held: Mapping[int, int] = _NOTHING
    ) -> int:
        """The instance with the most room, or one like it that holds most of the prompt
        (`held`: tokens by instance); `release` it when done."""
        candidates = self.loads.open(await self._endpoint.usable(self._deadline, avoid))
        instance = self.loads.best(candidates, self._placed, held)
        self.loads.sent(instance)
        self._placed[instance] += 1
        return instance

    def release(self, instance: int) -> None:
        """Undo one `place`."""
        self._placed[instance] -= 1
        if self._placed[instance] <= 0:
            del self._placed[instance]

    def left(self, instance: int) -> bool:
        """Whether the instance is to be left now, as it is about to go."""
        return self.leaves_at_once and self.loads.draining(instance)

    async def attempt(self, work: Callable[[], Awaitable[T]], *, wait_for_room: bool) -> T:
        """Run `work` until it succeeds, fails for good, or attempts run out.

        With `wait_for_room` full workers are tried again until the pool's deadline;
        without, being full is an answer like any other.
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


class Placement:
    """A session's hold on one instance of a pool, moved when that instance fails."""

    def __init__(self, pool: Pool) -> None:
        self.failures = 0  # of workers that died or were silent
        self._pool = pool
        self._instance: int | None = None
        self._failed: set[int] = set()

    async def instance(self, held: Held | None = None) -> int:
        """The instance had, placed now if there is none; `held` is asked then."""
        if self._instance is not None and self._pool.left(self._instance):
            self.leave()
        if self._instance is None:
            tokens = _NOTHING if held is None else await held()
            self._instance = await self._pool.place(frozenset(self._failed), tokens)
        return self._instance

    def move(self) -> None:
        """The instance held failed: place the next request elsewhere if possible."""
        if self._instance is not None:
            self._failed.add(self._instance)
        self.leave()

    def leave(self) -> None:
        """Give the instance up."""
        if self._instance is not None:
            self._pool.release(self._instance)
            self._instance = None


async def _call_placed(
    endpoint: RemoteEndpoint,
    placement: Placement,
    request: Struct,
    reply: Any,
    seconds: float,
    *,
    stay_when_full: bool = False,
    held: Held | None = None,
) -> Any:
    """One call; a worker that is dead, full or silent is left, so the next goes elsewhere."""
    instance = await placement.instance(held)
    try:
        return await endpoint.call(request, reply, instance, seconds)
    except (WindowsMissing, FeaturesMissing):  # the worker is well
        raise
    except AuricleError as error:
        full = isinstance(error, Overloaded)
        if error.retryable and not (stay_when_full and full):
            placement.failures += not full
            placement.move()
        raise


class EncodePool(Pool):
    """Calls to encode workers."""

    leaves_at_once = True  # another one only has to be sent the window

    async def encode(
        self,
        placement: Placement,
        request_for: Callable[[int], EncodeRequest],
        on_missing: Callable[[int], None],
        *,
        wait_for_room: bool,
    ) -> EncodeReply:
        """Refs for all windows of the request, from one worker.

        What is sent depends on what the worker (`request_for(instance)`) has already;
        `on_missing(instance)` hears that it has lost some of it.
        """

        async def once() -> EncodeReply:
            instance = await placement.instance()
            request = request_for(instance)
            try:
                reply: EncodeReply = await _call_placed(
                    self._endpoint, placement, request, EncodeReply, self._deadline
                )
            except FeaturesMissing:
                on_missing(instance)
                raise
            return reply

        return await self.attempt(once, wait_for_room=wait_for_room)

    async def encode_ahead(self, instance: int, request: EncodeRequest) -> EncodeReply:
        """One short try, wherever the session is placed: nobody waits for it yet, and the
        session's next decode must not wait for it long."""
        reply: EncodeReply = await self._endpoint.call(
            request, EncodeReply, instance, min(_AHEAD_SECONDS, self._deadline)
        )
        return reply


class PdPool(Pool):
    """Calls to PD workers. Retrying is the session's: windows may have to be encoded again."""

    def __init__(
        self,
        endpoint: RemoteEndpoint,
        deadline_seconds: float,
        attempts: int,
        kv_index: KvIndex | None = None,
    ) -> None:
        """With `kv_index` a segment is placed also by where its prompt's beginning is."""
        super().__init__(endpoint, deadline_seconds, attempts)
        self._kv_index = kv_index

    async def decode(self, placement: Placement, request: DecodeRequest) -> DecodeReply:
        """One try. A partial that finds its worker full stays there: its KV is there."""
        reply: DecodeReply = await _call_placed(
            self._endpoint,
            placement,
            request,
            DecodeReply,
            self._deadline,
            stay_when_full=not request.final,
            held=self._asking(request),
        )
        return reply

    def _asking(self, request: DecodeRequest) -> Held | None:
        if self._kv_index is None:
            return None
        # What comes after the head is the session's own audio: nobody holds it.
        return partial(self._kv_index.held, request.head, request.tenant)
