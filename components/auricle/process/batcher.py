"""Continuous batching: a batch is whatever queued while the previous one ran. No timer.

Live jobs come first; background jobs fill the rest of a batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from auricle.core.errors import Overloaded, ProcessFailed, WorkerUnavailable

Job = TypeVar("Job")
Result = TypeVar("Result")


class Batcher(Generic[Job, Result]):
    """Runs `process` on up to `max_batch` jobs at a time; at most `max_queued` jobs wait.

    `max_batch` may be changed. A `process` that raises ProcessFailed ends it: all jobs get
    WorkerUnavailable then and later. All methods must be called on one event loop.
    """

    def __init__(
        self,
        process: Callable[[Sequence[Job]], Awaitable[Sequence[Result]]],
        *,
        max_batch: int,
        max_queued: int,
    ) -> None:
        self._process = process
        self.max_batch = max_batch
        self._max_queued = max_queued
        self._live: deque[tuple[Job, asyncio.Future[Result]]] = deque()
        self._background: deque[tuple[Job, asyncio.Future[Result]]] = deque()
        self._arrived = asyncio.Event()
        self._failed = False

    def __len__(self) -> int:
        return len(self._live) + len(self._background)

    def submit(self, job: Job, *, background: bool = False) -> asyncio.Future[Result]:
        """Queue a job and return the future of its result; cancel the future to withdraw it.

        Raises Overloaded if the queue is full; background jobs may fill half of it. Raises
        WorkerUnavailable after the end of `run`.
        """
        if self._failed:
            raise _replaced()
        full = len(self) >= self._max_queued
        if full or (background and len(self._background) >= max(1, self._max_queued // 2)):
            raise Overloaded(f"the queue is full ({self._max_queued} jobs); try again")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        (self._background if background else self._live).append((job, future))
        self._arrived.set()
        return future

    async def run(self) -> None:
        """Run batches until cancelled; the caller owns this task. Raises ProcessFailed."""
        while True:
            await self._arrived.wait()
            batch = self._take()
            if not len(self):
                self._arrived.clear()
            try:
                if batch:
                    await self._run_batch(batch)
            except ProcessFailed:
                self._failed = True
                for _, future in (*batch, *self._live, *self._background):
                    _fail(future, _replaced())
                raise

    def _take(self) -> list[tuple[Job, asyncio.Future[Result]]]:
        batch: list[tuple[Job, asyncio.Future[Result]]] = []
        for waiting in (self._live, self._background):
            while waiting and len(batch) < self.max_batch:
                job, future = waiting.popleft()
                if not future.done():
                    batch.append((job, future))
        return batch

    async def _run_batch(self, batch: list[tuple[Job, asyncio.Future[Result]]]) -> None:
        """Run a batch; if it fails, run each job alone, so that one bad job fails no other."""
        try:
            results = await self._process([job for job, _ in batch])
        except ProcessFailed:
            raise
        except Exception as error:
            if len(batch) == 1:
                _fail(batch[0][1], error)
                return
            for one in batch:
                await self._run_batch([one])
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


def _replaced() -> WorkerUnavailable:
    return WorkerUnavailable("this worker has failed and is being replaced")


def _fail(future: asyncio.Future[Result], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
