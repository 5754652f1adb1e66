"""What waits for an engine's one thread: jobs by priority, and questions whether it works."""

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
    """One request, with all of its stop tokens. `prompt_tokens` is its prompt's length.

    KV is kept of its first `reusable_windows` windows. `withdrawn` is set from another thread, and
    heeded between two steps.
    """

    request: GenerateRequest
    stop_tokens: frozenset[int]
    reusable_windows: int
    prompt_tokens: int
    queued: float = field(default_factory=time.monotonic)
    outcome: Future[Decoded] = field(default_factory=Future)
    withdrawn: bool = False


class Jobs:
    """At most `most` jobs wait or run. One thread takes them, any may put them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, DecodeJob]] = []
        self._numbers = itertools.count()
        self._questions: list[Future[None]] = []
        self._running = 0
        self._closed = False

    def put(self, job: DecodeJob) -> None:
        """Queue a job behind those of its priority.

        Raises Overloaded if the queue is full, and WorkerUnavailable once it is closed.
        """
        with self._changed:
            self._refuse_if_closed()
            if len(self._waiting) + self._running >= self._most:
                raise Overloaded(f"{self._most} requests wait for the engine; try again")
            heapq.heappush(self._waiting, (job.request.priority, next(self._numbers), job))
            self._changed.notify()

    def withdraw(self, job: DecodeJob) -> bool:
        """Take back a job that nobody has taken; returns whether it was still there."""
        with self._changed:
            job.withdrawn = True
            left = [entry for entry in self._waiting if entry[-1] is not job]
            found = len(left) < len(self._waiting)
            if found:
                self._waiting = left
                heapq.heapify(self._waiting)
            return found

    def ask(self) -> Future[None]:
        """Return what the thread sets when it comes by.

        Raises WorkerUnavailable if it has ended.
        """
        with self._changed:
            self._refuse_if_closed()
            question: Future[None] = Future()
            self._questions.append(question)
            self._changed.notify()
            return question

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise _ended()

    def take(self) -> DecodeJob | None:
        """Wait for the next job, and answer questions meanwhile; None once it is closed.

        The job taken before counts as done.
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
        """Answer questions, in the middle of a job; returns whether to go on."""
        with self._changed:
            self._answer()
            return not self._closed

    def _answer(self) -> None:
        for question in self._questions:
            if question.set_running_or_notify_cancel():
                question.set_result(None)
        self._questions.clear()

    def close(self) -> None:
        """Refuse all that waits and all that comes; the thread ends after its step."""
        with self._changed:
            self._closed = True
            unanswered: Sequence[Future[None] | Future[Decoded]] = (
                *self._questions,
                *(job.outcome for *_, job in self._waiting),
            )
            self._questions.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for one in unanswered:
            if one.set_running_or_notify_cancel():
                one.set_exception(_ended())


def _ended() -> WorkerUnavailable:
    return WorkerUnavailable("the engine of this PD worker has ended")


# Which prompt's beginning each slot of the KV cache holds. No I/O, no tensors.
#
# A segment is decoded again and again: its head and its finished windows stay, what follows does
# not. A decode takes the slot that holds the longest beginning of its prompt, and extends it in
# place. A slot that is in use holds nothing for others.


@dataclass(frozen=True)
class Prefix:
    """The beginning of a prompt: its head, then windows by key, of `lengths` tokens each.

    Prompts of two tenants have no common beginning.
    """

    tenant: str
    head: tuple[int, ...]
    keys: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Its length in tokens."""
        return len(self.head) + sum(self.lengths)

    def first(self, windows: int) -> Prefix:
        """Return the head and the first `windows` windows."""
        return Prefix(self.tenant, self.head, self.keys[:windows], self.lengths[:windows])

    def begins(self, other: Prefix) -> bool:
        """Whether `other` begins with all of this."""
        return self == other.first(len(self.keys))


class KvSlots:
    """`count` slots. Those that nobody has asked for longest are given to others first."""

    def __init__(self, count: int) -> None:
        self.count = count
        # What each slot holds that is not in use, the next to be given away first.
        self._held: OrderedDict[int, Prefix | None] = OrderedDict.fromkeys(range(count))

    @property
    def in_use(self) -> int:
        """How many slots are taken and not given back."""
        return self.count - len(self._held)

    def take(self, wanted: Prefix) -> tuple[int, Prefix]:
        """Take a slot; returns its number and what it holds of the beginning of `wanted`.

        Without a window in common it is a slot that holds least of use to others. Raises
        IndexError if all slots are in use.
        """
        best = max(
            (slot for slot, held in self._held.items() if held is not None and held.begins(wanted)),
            key=lambda slot: len(self._prefix(slot).keys),
            default=None,
        )
        if best is None:
            if not self._held:
                raise IndexError("all slots of the KV cache are in use")
            slot, _ = self._held.popitem(last=False)
            return slot, Prefix(wanted.tenant, (), (), ())
        found = self._prefix(best)
        del self._held[best]
        return best, found

    def _prefix(self, slot: int) -> Prefix:
        held = self._held[slot]
        assert held is not None
        return held

    def give_back(self, slot: int, holds: Prefix | None) -> None:
        """Return a slot with what it `holds`; it is the next to be given away if that is nothing.

        A head alone is nothing: it costs less to compute than a slot that somebody else needs.
        """
        if holds is None or not holds.keys:
            self._held[slot] = None
            self._held.move_to_end(slot, last=False)
        else:
            self._held[slot] = holds
