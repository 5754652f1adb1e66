"""The queue of an engine that runs in a thread of this process."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from auricle.core.errors import Overloaded, WorkerUnavailable
from auricle.workers.pd.engine import Decoded, GenerateRequest


@dataclass(eq=False)
class DecodeJob:
    """One request with all its stop tokens; its prompt has `prompt_tokens`.

    KV is kept for the first `reusable_windows` windows. `withdrawn` is set from another thread and
    checked between steps. `copied` is resolved once the slots of its windows are no longer read,
    if that is before its outcome.
    """

    request: GenerateRequest
    stop_tokens: frozenset[int]
    reusable_windows: int
    prompt_tokens: int
    queued: float = field(default_factory=time.monotonic)
    outcome: Future[Decoded] = field(default_factory=Future)
    copied: Future[None] = field(default_factory=Future)
    withdrawn: bool = False


class Jobs:
    """Jobs by priority, at most `most` waiting or running, and pings; one thread takes them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, DecodeJob]] = []
        self._numbers = itertools.count()
        self._pings: list[Future[None]] = []
        self._running = 0
        self._closed = False

    def put(self, job: DecodeJob) -> None:
        """Queue a job after others of its priority.

        Raises Overloaded if the queue is full, and WorkerUnavailable once it is closed.
        """
        with self._changed:
            self._refuse_if_closed()
            if len(self._waiting) + self._running >= self._most:
                raise Overloaded(f"{self._most} requests wait for the engine; try again")
            heapq.heappush(self._waiting, (job.request.priority, next(self._numbers), job))
            self._changed.notify()

    def withdraw(self, job: DecodeJob) -> bool:
        """Withdraw a job; returns whether it was still waiting."""
        with self._changed:
            job.withdrawn = True
            left = [entry for entry in self._waiting if entry[-1] is not job]
            found = len(left) < len(self._waiting)
            if found:
                self._waiting = left
                heapq.heapify(self._waiting)
            return found

    def ping(self) -> Future[None]:
        """Return a future that the thread resolves between steps.

        Raises WorkerUnavailable if it has ended.
        """
        with self._changed:
            self._refuse_if_closed()
            ping: Future[None] = Future()
            self._pings.append(ping)
            self._changed.notify()
            return ping

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise _ended()

    def take(self, joins: Callable[[Sequence[DecodeJob], DecodeJob], bool]) -> list[DecodeJob]:
        """Wait for the next job and answer pings; none once the queue is closed.

        Waiting jobs that may be computed with those before them, by `joins`, follow it. The
        previous jobs count as done.
        """
        with self._changed:
            self._running = 0
            while not self._closed:
                self._answer()
                if self._waiting:
                    taken = self._taken(joins)
                    self._running = len(taken)
                    return taken
                self._changed.wait()
            return []

    def _taken(self, joins: Callable[[Sequence[DecodeJob], DecodeJob], bool]) -> list[DecodeJob]:
        taken = [heapq.heappop(self._waiting)[-1]]
        left = []
        for entry in sorted(self._waiting):
            if joins(taken, entry[-1]):
                taken.append(entry[-1])
            else:
                left.append(entry)
        self._waiting = left  # sorted, and so a heap
        return taken

    def between_steps(self) -> bool:
        """Answer pings during jobs; returns False once the queue is closed."""
        with self._changed:
            self._answer()
            return not self._closed

    def _answer(self) -> None:
        for ping in self._pings:
            if ping.set_running_or_notify_cancel():
                ping.set_result(None)
        self._pings.clear()

    def close(self) -> None:
        """Fail all waiting and later jobs; the thread ends after its step."""
        with self._changed:
            self._closed = True
            unanswered: Sequence[Future[None] | Future[Decoded]] = (
                *self._pings,
                *(job.outcome for *_, job in self._waiting),
            )
            self._pings.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for one in unanswered:
            if one.set_running_or_notify_cancel():
                one.set_exception(_ended())


def _ended() -> WorkerUnavailable:
    return WorkerUnavailable("the engine of this PD worker has ended")
