"""Base of workers that run a model over batches of segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from auricle.load.meters import WorkMeter
from auricle.process.batcher import Batcher
from auricle.process.device import DeviceThread
from auricle.process.metrics import ComponentMetrics

Job = TypeVar("Job")
Result = TypeVar("Result")


class SegmentMetrics:
    """Shows requests, and measures batches."""

    def __init__(self, new: ComponentMetrics) -> None:
        self.batch_segments = new.histogram(
            "batch_segments", "segments per batch", (1, 2, 4, 8, 16, 32, 64)
        )
        self.requests_limit = new.gauge("requests_limit", "limit of concurrent requests")
        self.in_flight = new.gauge("requests_in_flight", "requests in progress")


class SegmentWorker(Generic[Job, Result]):
    """Works on up to `max_requests` segments at a time, in batches; keeps no state of any session.

    Its methods must be called on one event loop; a thread of its own runs the model.
    """

    def __init__(
        self,
        metrics: SegmentMetrics,
        device: DeviceThread,
        passes: Callable[[Sequence[Job]], Sequence[Result]],
        *,
        max_batch: int,
        max_requests: int,
    ) -> None:
        """`passes` runs the model over a batch, in the thread of `device`."""
        self.meter = WorkMeter()
        self.device = device
        self._passes = passes
        self._batch_segments = metrics.batch_segments
        self._batcher: Batcher[tuple[Job, float], Result] = Batcher(
            self._run_batch, max_batch=max_batch, max_queued=max_requests
        )
        metrics.in_flight.set_function(lambda: self.meter.in_flight)
        metrics.requests_limit.set(max_requests)

    async def run(self) -> None:
        """Run batches until cancelled. Raises ProcessFailed if the device is broken."""
        await self._batcher.run()

    async def _submit(self, job: Job, *, background: bool) -> Result:
        """Return the result of a job. Raises as `Batcher.submit` does, and what its pass does."""
        return await self._batcher.submit((job, time.monotonic()), background=background)

    def _measured(self, jobs: Sequence[Job], seconds: float) -> Mapping[str, float]:
        """Return the work of a batch that took `seconds`, by unit, without its segments."""
        raise NotImplementedError

    async def _run_batch(self, batch: Sequence[tuple[Job, float]]) -> Sequence[Result]:
        began = time.monotonic()
        for _, submitted in batch:
            self.meter.waited(began - submitted)
        jobs = [job for job, _ in batch]
        found = await self.device.run(self._passes, jobs)
        self._batch_segments.observe(len(jobs))
        self.meter.did(segments=len(jobs), **self._measured(jobs, time.monotonic() - began))
        return found
