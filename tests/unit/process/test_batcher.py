"""Batching: jobs that waited together run together, and a bad job fails alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from auricle.core.errors import Overloaded, ProcessFailed, WorkerUnavailable
from auricle.process.batcher import Batcher

pytestmark = pytest.mark.unit


class Device:
    """Doubles numbers; rejects 13; `gate` delays a pass."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def process(self, jobs: Sequence[int]) -> list[int]:
        self.batches.append(list(jobs))
        self.entered.set()
        await self.gate.wait()
        if 13 in jobs:
            raise ValueError("unlucky")
        return [2 * job for job in jobs]


@contextlib.asynccontextmanager
async def running(batcher: Batcher[int, int]) -> AsyncIterator[None]:
    task = asyncio.create_task(batcher.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_jobs_that_queue_during_a_pass_run_together_in_the_next() -> None:
    device = Device()
    batcher: Batcher[int, int] = Batcher(device.process, max_batch=3, max_queued=10)
    device.gate.clear()
    async with running(batcher):
        first = batcher.submit(1)
        await device.entered.wait()
        rest = [batcher.submit(n) for n in (2, 3, 4, 5)]
        device.gate.set()
        assert await first == 2
        assert await asyncio.gather(*rest) == [4, 6, 8, 10]
    assert device.batches == [[1], [2, 3, 4], [5]]


async def test_one_bad_job_does_not_fail_its_neighbours() -> None:
    device = Device()
    batcher: Batcher[int, int] = Batcher(device.process, max_batch=4, max_queued=10)
    futures = [batcher.submit(n) for n in (1, 13, 2)]
    async with running(batcher):
        results = await asyncio.gather(*futures, return_exceptions=True)
    assert (results[0], results[2]) == (2, 4)
    assert isinstance(results[1], ValueError)


async def test_a_full_queue_refuses() -> None:
    batcher: Batcher[int, int] = Batcher(Device().process, max_batch=4, max_queued=2)
    batcher.submit(1)
    batcher.submit(2)
    with pytest.raises(Overloaded, match="queue is full"):
        batcher.submit(3)


async def test_live_jobs_come_before_background_jobs() -> None:
    device = Device()
    batcher: Batcher[int, int] = Batcher(device.process, max_batch=2, max_queued=10)
    jobs = [batcher.submit(n, background=True) for n in (1, 2)]
    jobs += [batcher.submit(n) for n in (3, 4, 5)]
    async with running(batcher):
        await asyncio.gather(*jobs)
    assert device.batches == [[3, 4], [5, 1], [2]]


async def test_background_jobs_may_fill_half_of_the_queue() -> None:
    batcher: Batcher[int, int] = Batcher(Device().process, max_batch=4, max_queued=4)
    batcher.submit(1, background=True)
    batcher.submit(2, background=True)
    with pytest.raises(Overloaded, match="queue is full"):
        batcher.submit(3, background=True)
    batcher.submit(4)


async def test_a_withdrawn_job_is_not_processed() -> None:
    device = Device()
    batcher: Batcher[int, int] = Batcher(device.process, max_batch=4, max_queued=10)
    withdrawn, kept = batcher.submit(1), batcher.submit(2)
    withdrawn.cancel()
    async with running(batcher):
        assert await kept == 4
    assert device.batches == [[2]]


async def test_a_device_that_is_broken_fails_all_jobs_with_an_error_that_moves_them() -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def broken(_jobs: Sequence[int]) -> list[int]:
        entered.set()
        await gate.wait()
        raise ProcessFailed("the context is lost")

    batcher: Batcher[int, int] = Batcher(broken, max_batch=2, max_queued=10)
    futures = [batcher.submit(n, background=n > 3) for n in range(5)]
    running = asyncio.create_task(batcher.run())
    await entered.wait()
    gate.set()
    for result in await asyncio.gather(*futures, return_exceptions=True):
        assert isinstance(result, WorkerUnavailable)
        assert "context" not in str(result)
    with pytest.raises(ProcessFailed, match="the context is lost"):
        await running
    with pytest.raises(WorkerUnavailable):
        batcher.submit(6)
