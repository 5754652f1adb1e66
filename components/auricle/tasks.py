"""Tasks with an owner, and waits with a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from auricle.errors import DeadlineExceeded

T = TypeVar("T")
log = logging.getLogger(__name__)


async def within(seconds: float, awaitable: Awaitable[T], what: str) -> T:
    """Await with a deadline; DeadlineExceeded names what was waited for.

    Not `asyncio.wait_for`: before Python 3.12 it loses a cancellation that arrives
    together with the result, and a loop around it then runs for ever.
    """
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None


class Interrupted(Exception):
    """Nothing came, but there is something to look at (see `Patience.interrupt`)."""


class Patience:
    """`within` for waits that follow each other many times a second, with one timer for all.

    A timer of its own for each packet of a session would be the larger part of receiving it.
    """

    _LOOK_SECONDS = 1.0  # how late a deadline may be noticed

    def __init__(self) -> None:
        self._until: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended_by: Exception | None = None

    async def wait(self, seconds: float, awaitable: Awaitable[T], what: str) -> T:
        """Await with a deadline; raises DeadlineExceeded, or Interrupted. One at a time.

        What is awaited must lose nothing when it is cancelled.
        """
        loop = asyncio.get_running_loop()
        self._until = loop.time() + seconds
        task = self._task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._look)
        elif self._timer.when() > self._until:
            self._timer.cancel()
            self._timer = loop.call_at(self._until, self._look)
        try:
            return await awaitable
        except asyncio.CancelledError:
            # As in asyncio.Timeout: ours, unless somebody else cancelled the task too.
            if self._ended_by is None or task.uncancel() > cancelling:
                raise
            if isinstance(self._ended_by, TimeoutError):
                raise DeadlineExceeded(f"{what} took longer than {seconds:g} s") from None
            raise self._ended_by from None
        finally:
            self._until = self._ended_by = None

    def interrupt(self) -> None:
        """End the wait under way, if there is one."""
        self._end(Interrupted())

    def close(self) -> None:
        """No more waits will come."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._until is not None and now >= self._until:
            self._end(TimeoutError())
        if self._until is None:
            # Nobody waits now, and perhaps never will again: the next wait sets a timer.
            self._timer = None
        else:
            self._timer = loop.call_at(max(self._until, now + self._LOOK_SECONDS), self._look)

    def _end(self, reason: Exception) -> None:
        if self._until is not None and self._ended_by is None and self._task is not None:
            self._ended_by = reason
            self._task.cancel()


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None if `event` is set before: `work` is then cancelled."""
    task = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await cancelled([task, waiting])


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """`asyncio.to_thread`, whose thread has ended when this ends, cancelled or not.

    A thread cannot be cancelled: left alone it would go on with what has one owner only.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # nobody waits for it any more
        raise


async def first_failure_or(main: asyncio.Task[T], others: list[asyncio.Task[None]]) -> T:
    """The result of `main`; a failure of any task comes first. All have ended on return."""
    waiting: set[asyncio.Task[Any]] = {main, *others}
    try:
        while main in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return main.result()
    finally:
        await cancelled([main, *others])


async def cancelled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel all and wait until they have ended; how they end is nobody's interest."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class TaskOwner:
    """Owns background tasks: each is awaited or cancelled by `aclose`.

    A task that dies of an exception is reported to `on_death` (a component
    turns its health red there), never dropped.
    """

    def __init__(self, on_death: Callable[[str, BaseException], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._on_death = on_death

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as an owned task."""
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
        """Cancel what still runs and wait for it to end."""
        running = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in running:
            task.cancel()
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                log.error("task %s did not end in %g s", task.get_name(), seconds)
