"""The queue of an engine's thread, and its slots of the KV cache."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from auricle.core.errors import Overloaded, WorkerUnavailable
from auricle.workers.pd.engine import Decoded, GenerateRequest


@dataclass(eq=False)
class DecodeJob:
    """One request with all its stop tokens; its prompt has `prompt_tokens`.

    KV is kept for the first `reusable_windows` windows. `withdrawn` is set from another thread and
    checked between steps.
    """

    request: GenerateRequest
    stop_tokens: frozenset[int]
    reusable_windows: int
    prompt_tokens: int
    queued: float = field(default_factory=time.monotonic)
    outcome: Future[Decoded] = field(default_factory=Future)
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

    def take(self) -> DecodeJob | None:
        """Wait for the next job and answer pings; None once the queue is closed.

        The previous job counts as done.
        """
        with self._changed:
            self._running = 0
            while not self._closed:
                self._answer()
                if self._waiting:
                    self._running = 1
                    return heapq.heappop(self._waiting)[-1]
                self._changed.wait()
            return None

    def between_steps(self) -> bool:
        """Answer pings during a job; returns False once the queue is closed."""
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


@dataclass(frozen=True)
class Prefix:
    """The beginning of a tenant's prompt: its head, then windows by key, of `lengths` tokens."""

    tenant: str
    head: tuple[int, ...]
    keys: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return len(self.head) + sum(self.lengths)

    def first(self, windows: int) -> Prefix:
        return Prefix(self.tenant, self.head, self.keys[:windows], self.lengths[:windows])

    def begins(self, other: Prefix) -> bool:
        return self == other.first(len(self.keys))


class KvSlots:
    """The prefix in each of `count` slots of the KV cache; the least recently used is reused first.

    A segment is decoded repeatedly, with the same head and finished windows. A decode takes the
    slot with the longest prefix of its prompt and extends it in place.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # The prefixes of free slots, least recently used first.
        self._held: OrderedDict[int, Prefix | None] = OrderedDict.fromkeys(range(count))

    @property
    def in_use(self) -> int:
        return self.count - len(self._held)

    def take(self, wanted: Prefix) -> tuple[int, Prefix]:
        """Take a slot; returns its number and the prefix of `wanted` that it holds.

        Without a common window it is the least recently used one. Raises IndexError if all slots
        are in use.
        """
        fitting = [(s, held) for s, held in self._held.items() if held and held.begins(wanted)]
        if fitting:
            slot, found = max(fitting, key=lambda pair: len(pair[1].keys))
            del self._held[slot]
            return slot, found
        if not self._held:
            raise IndexError("all slots of the KV cache are in use")
        slot, _ = self._held.popitem(last=False)
        return slot, Prefix(wanted.tenant, (), (), ())

    def give_back(self, slot: int, holds: Prefix | None) -> None:
        """Return a slot with the prefix that it `holds`; it is reused first without windows."""
        if holds is None or not holds.keys:
            self._held[slot] = None
            self._held.move_to_end(slot, last=False)
        else:
            self._held[slot] = holds
