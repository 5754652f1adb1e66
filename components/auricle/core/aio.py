"""Background tasks with an owner, and waits with a deadline."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from auricle.core.errors import DeadlineExceeded

T = TypeVar("T")
log = logging.getLogger(__name__)
# Time for which one client may hold an event loop before others are served.
TIME_SLICE_SECONDS = 0.002


async def with_timeout(seconds: float, awaitable: Awaitable[T], what: str) -> T:
    """Await with a deadline. Raises DeadlineExceeded after `seconds`, naming `what`.

    Before Python 3.12 `asyncio.wait_for` loses a cancellation that arrives together with the
    result, so a loop around it would never end.
    """
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None


class TimeSlice:
    """One client's share of an event loop that serves many: it expires after `TIME_SLICE_SECONDS`.

    A reader with much buffered input never waits and would block other clients, so it calls
    `yield_if_expired` after each small step. A time slice begins with the first step after the loop
    has run something else, so a reader that waits for its client never yields.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)  # in seconds

    def __init__(self) -> None:
        self._began: float | None = None

    def begin(self) -> None:
        """Begin a step. Call this on the event loop."""
        if self._began is None:
            self._began = self.clock()
            asyncio.get_running_loop().call_soon(self._over)

    @property
    def expired(self) -> bool:
        """Whether the time slice has lasted `TIME_SLICE_SECONDS`."""
        return self._began is not None and self.clock() - self._began >= TIME_SLICE_SECONDS

    async def yield_if_expired(self) -> None:
        """Let other tasks run if the time slice has expired; call this between two steps."""
        if self._began is None:
            self.begin()
        elif self.expired:
            await asyncio.sleep(0)
            self.begin()

    def _over(self) -> None:
        self._began = None


class Interrupted(Exception):
    """`ReusableTimeout.interrupt` ended the wait."""


class ReusableTimeout:
    """`with_timeout` with one timer for many waits per second.

    A timer per packet would dominate the cost of receiving a session's audio. Only one wait may be
    in progress at a time; make all calls on one event loop.
    """

    _CHECK_SECONDS = 1.0  # by which a deadline may be late

    def __init__(self) -> None:
        self._until: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended_by: Exception | None = None

    async def wait(self, seconds: float, awaitable: Awaitable[T], what: str) -> T:
        """Await with a deadline; the awaitable must support cancellation without losses.

        Raises DeadlineExceeded after `seconds` (up to 1 s late), naming `what`, and Interrupted
        after `interrupt`.
        """
        loop = asyncio.get_running_loop()
        self._until = loop.time() + seconds
        task = self._task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._on_timer)
        elif self._timer.when() > self._until:
            self._timer.cancel()
            self._timer = loop.call_at(self._until, self._on_timer)
        try:
            return await awaitable
        except asyncio.CancelledError:
            # As in asyncio.Timeout: re-raise if the task was also cancelled from elsewhere.
            if self._ended_by is None or task.uncancel() > cancelling:
                raise
            if isinstance(self._ended_by, TimeoutError):
                raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None
            raise self._ended_by from None
        finally:
            # The timer may keep running for an hour, and must not hold a failed task's objects.
            self._until = self._ended_by = self._task = None

    def interrupt(self) -> None:
        """End the wait in progress, if any, with Interrupted."""
        self._end(Interrupted())

    def fail(self, error: Exception) -> None:
        """End the wait in progress, if any, with `error`."""
        self._end(error)

    def close(self) -> None:
        """Cancel the timer; no wait may follow."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._until is not None and now >= self._until:
            self._end(TimeoutError())
        if self._until is None:
            # No wait is in progress; the next one sets a timer.
            self._timer = None
        else:
            self._timer = loop.call_at(max(self._until, now + self._CHECK_SECONDS), self._on_timer)

    def _end(self, reason: Exception) -> None:
        if self._until is not None and self._ended_by is None and self._task is not None:
            self._ended_by = reason
            self._task.cancel()


async def run_until(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; if `event` is set first, cancel `work` and return None."""
    task = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await cancelled([task, waiting])


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """`asyncio.to_thread`, but on cancellation wait until the call has returned.

    A thread cannot be cancelled: it would keep using an object that may have one user only. The
    wait has no deadline, so `work` must end by itself.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not log it
        raise


async def first_failure_or(main: asyncio.Task[T], others: list[asyncio.Task[None]]) -> T:
    """Return the result of `main`, or raise the first error of any task.

    All tasks have ended on return; those still running are cancelled.
    """
    waiting: set[asyncio.Task[Any]] = {main, *others}
    try:
        while main in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return main.result()
    finally:
        await cancelled([main, *others])


async def outcome_of(future: asyncio.Future[T]) -> T:
    """Wait for a future of another owner; cancelling the wait does not cancel the future."""
    return await asyncio.shield(future)


async def cancelled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel all tasks, wait until they have ended, and ignore their results and errors."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def discard(task: asyncio.Future[Any]) -> None:
    """End a task and ignore its result and its error, which asyncio then does not log."""
    if not task.done():
        await cancelled([task])
    elif not task.cancelled():
        task.exception()


class TaskOwner:
    """Owns background tasks and cancels the running ones at `aclose`.

    If a task raises, the error is logged and `on_death` is called with the task's name and the
    error, so that the component can report itself as unhealthy.
    """

    def __init__(self, on_death: Callable[[str, BaseException], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_death = on_death

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as an owned task. Call this on the event loop."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("task %s died", task.get_name(), exc_info=error)
        if self._on_death is not None:
            self._on_death(task.get_name(), error)

    async def aclose(self, seconds: float = 5.0) -> None:
        """Cancel the running tasks, wait up to `seconds` for them, and log late ones."""
        running = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in running:
            task.cancel()
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                log.error("task %s did not end in %g s", task.get_name(), seconds)
