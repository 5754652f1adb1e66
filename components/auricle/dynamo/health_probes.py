"""Distinguishes slow instances from hung ones by probing instances with overdue answers.

A second attempt after a usual time would double the load just when all workers are slow. A probe
costs nothing, and a hung instance cannot answer it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from auricle.core.aio import discard
from auricle.core.errors import AuricleError, DeadlineExceeded, WorkerUnavailable
from auricle.dynamo.remote import RemoteEndpoint
from auricle.protocol.control import Alive, AskAlive

log = logging.getLogger(__name__)
T = TypeVar("T")
# Later than this after the deadline, it was this process that hung, not the other.
_OWN_LAG_SECONDS = 0.3


@dataclass(frozen=True)
class PulseTimes:
    """When an instance is probed, and when it counts as hung: all in seconds.

    It is probed once a call has taken `probe_after`, and again after each further `probe_after`.
    It is hung if the answer takes `answer`, or if a part of it has been silent for `part`. Without
    another instance it is left only after it has been hung for `alone`.
    """

    probe_after: float
    answer: float
    part: float
    alone: float = 60.0


# A worker that hangs costs a segment less than 2 s. Nothing is lost if one is left too early.
WORKER_PULSE = PulseTimes(probe_after=0.5, answer=1.2, part=1.5)
# Moving all sessions of a processor costs more.
PROCESSOR_PULSE = PulseTimes(probe_after=1.0, answer=2.5, part=5.0)


class Pulses:
    """Watches calls to the instances of `served`. Use it on one event loop."""

    def __init__(
        self,
        alive: RemoteEndpoint,
        served: RemoteEndpoint,
        times: PulseTimes,
        clock: Callable[[], float] = time.monotonic,
        caller: str = "",
    ) -> None:
        """`alive` is the endpoint of the same component that answers AskAlive; `caller` is this
        process's name in probes."""
        self.caller = caller
        self._alive = alive
        self._served = served
        self._times = times
        self._clock = clock
        self._answered: dict[int, float] = {}

    async def during(
        self, instance: int, work: Awaitable[T], stop: asyncio.Future[None] | None = None
    ) -> T:
        """Return the result of `work`, which waits for `instance`.

        Raises WorkerUnavailable if the instance hangs and there is another one, and the
        exception of `stop` once that is set. `work` is cancelled then. Without another instance
        `work` continues for `alone` seconds, because the instance may recover or be restarted.
        """
        task = asyncio.ensure_future(work)
        ends: set[asyncio.Future[Any]] = {task} if stop is None else {task, stop}
        hung: float | None = None  # since when
        try:
            while True:
                if await _first(ends, self._times.probe_after) is None:
                    hung = await self._check(instance, ends, hung)
                if task.done():
                    return task.result()
                if stop is not None and stop.done():
                    stop.result()
        finally:
            await discard(task)

    async def _check(
        self, instance: int, ends: set[asyncio.Future[Any]], hung: float | None
    ) -> float | None:
        """Probe the instance, unless one of `ends` comes first.

        Takes and returns the time since which it has hung, or None. Raises WorkerUnavailable if it
        must be left.
        """
        asking = asyncio.ensure_future(self._hangs(instance))
        try:
            ended = await _first({*ends, asking}, None)
            if ended is not asking or not asking.result():
                return None
            now = self._clock()
            hung = now if hung is None else hung
            if now - hung >= self._times.alone or await self._served.others(instance):
                raise self._given_up(instance)
            return hung
        finally:
            await discard(asking)

    async def _hangs(self, instance: int) -> bool:
        began = self._clock()
        if began - self._answered.get(instance, float("-inf")) < self._times.probe_after:
            return False
        try:
            reply: Alive = await self._alive.call(
                AskAlive(self.caller), Alive, instance, self._times.answer
            )
        except DeadlineExceeded:
            return self._clock() - began < self._times.answer + _OWN_LAG_SECONDS
        except AuricleError:
            return False  # it has ended, or is ending: the call fails by itself
        now = self._clock()
        if reply.silent_seconds >= self._times.part:
            return True
        recent = {i: at for i, at in self._answered.items() if now - at < self._times.probe_after}
        self._answered = recent | {instance: now}
        return False

    def _given_up(self, instance: int) -> WorkerUnavailable:
        self._served.suspect(instance)
        log.warning(
            "instance %x missed its health probe; its calls go to other instances", instance
        )
        return WorkerUnavailable(f"instance {instance:x} does not answer")


async def _first(
    futures: set[asyncio.Future[Any]], seconds: float | None
) -> asyncio.Future[Any] | None:
    """Wait for one of the futures, for at most `seconds`; return it, or None."""
    done, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return next(iter(done), None)
