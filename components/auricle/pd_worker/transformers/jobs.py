"""What waits for an engine's one thread: jobs by priority, and questions whether it works."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from auricle.errors import Overloaded, WorkerUnavailable
from auricle.pd_worker.engine import Decoded, GenerateRequest


@dataclass(eq=False)
class Job:
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
        self._waiting: list[tuple[int, int, Job]] = []
        self._numbers = itertools.count()
        self._questions: list[Future[None]] = []
        self._running = 0
        self._closed = False

    def put(self, job: Job) -> None:
        """Queue a job behind those of its priority.

        Raises Overloaded if the queue is full, and WorkerUnavailable once it is closed.
        """
        with self._changed:
            self._refuse_if_closed()
            if len(self._waiting) + self._running >= self._most:
                raise Overloaded(f"{self._most} requests wait for the engine; try again")
            heapq.heappush(self._waiting, (job.request.priority, next(self._numbers), job))
            self._changed.notify()

    def withdraw(self, job: Job) -> bool:
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

    def take(self) -> Job | None:
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
