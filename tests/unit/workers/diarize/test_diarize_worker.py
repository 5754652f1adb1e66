"""A diarize worker's requests: batched across sessions, and rejected with a reason."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from auricle.annotation.speakers.model import Diarized, SpeakerSegment, SpeakerSpan
from auricle.config.settings import DiarizeWorkerSettings
from auricle.core.errors import BadRequest, Overloaded, ProcessFailed, WorkerUnavailable
from auricle.protocol.annotation import DiarizeRequest, SpeakerTurn
from auricle.workers.diarize.worker import DiarizeWorker, DiarizeWorkerMetrics

pytestmark = pytest.mark.unit
REQUEST = DiarizeRequest("s", "t", b"\x01\x00" * 16_000, b"", 8)


class Model:
    """Returns one turn for a whole segment; can be held back, and can fail."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.faults: list[Exception] = []
        self.broken = False

    def check(self, state: bytes) -> None:
        if state == b"foreign":
            raise BadRequest("the session's voices belong to another speaker model")

    def warm_up(self) -> None:
        if self.broken:
            raise RuntimeError("the device is gone")

    def diarize(self, batch: Sequence[SpeakerSegment]) -> list[Diarized]:
        self.begun.set()
        assert self.gate.wait(10)
        self.batches.append(len(batch))
        if self.faults:
            raise self.faults.pop(0)
        return [Diarized((SpeakerSpan(1, 0, len(one.pcm)),), one.state + b"+") for one in batch]


@asynccontextmanager
async def running(model: Model, **settings: int) -> AsyncIterator[DiarizeWorker]:
    worker = DiarizeWorker(
        DiarizeWorkerSettings(**settings),  # type: ignore[arg-type]
        model,
        DiarizeWorkerMetrics(CollectorRegistry()),
    )
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        model.gate.set()
        task.cancel()
        with suppress(asyncio.CancelledError, ProcessFailed):
            await task
        worker.device.close()


async def until(worker: DiarizeWorker, requests: int) -> None:
    """Wait until newly created tasks have begun; each needs one iteration of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert worker.meter.in_flight == requests


async def test_a_segment_is_answered_with_turns_and_the_state() -> None:
    async with running(Model()) as worker:
        reply = await worker.diarize(replace(REQUEST, state=b"before"))
    assert reply.turns == (SpeakerTurn(1, 0, 16_000),)
    assert reply.state == b"before+"


async def test_segments_that_queue_share_a_batch() -> None:
    model = Model()
    model.gate.clear()
    async with running(model, max_batch_segments=4) as worker:
        first = asyncio.create_task(worker.diarize(REQUEST))
        await asyncio.to_thread(model.begun.wait, 10)
        others = [asyncio.create_task(worker.diarize(REQUEST)) for _ in range(5)]
        await until(worker, 6)
        model.gate.set()
        await asyncio.gather(first, *others)
    assert model.batches == [1, 4, 1]


async def test_a_full_worker_refuses_and_background_work_fills_half() -> None:
    model = Model()
    model.gate.clear()
    async with running(model, max_requests=2) as worker:
        first = asyncio.create_task(worker.diarize(REQUEST))
        await asyncio.to_thread(model.begun.wait, 10)
        with pytest.raises(Overloaded):
            await worker.diarize(replace(REQUEST, background=True))
        second = asyncio.create_task(worker.diarize(REQUEST))
        await until(worker, 2)
        with pytest.raises(Overloaded, match="2 of 2 places"):
            await worker.diarize(REQUEST)
        model.gate.set()
        await asyncio.gather(first, second)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pcm": b""}, "a segment of 0 bytes"),
        ({"pcm": b"\x00" * 3}, "a segment of 3 bytes"),
        ({"pcm": bytes(2 * 16_000 * 31)}, r"up to 960000 \(Common.max_segment_seconds\)"),
        ({"max_speakers": 0}, "max_speakers is 0, not 1 to 16"),
        ({"max_speakers": 17}, "max_speakers is 17"),
        ({"state": b"foreign"}, "another speaker model"),
    ],
)
async def test_what_is_no_segment_is_refused(change: dict[str, object], said: str) -> None:
    async with running(Model()) as worker:
        with pytest.raises(BadRequest, match=said):
            await worker.diarize(replace(REQUEST, **change))
        assert (await worker.diarize(REQUEST)).turns


async def test_a_pass_that_fails_alone_fails_alone() -> None:
    model = Model()
    model.faults = [RuntimeError("this one")]
    async with running(model) as worker:
        with pytest.raises(RuntimeError, match="this one"):
            await worker.diarize(REQUEST)
        assert (await worker.diarize(REQUEST)).turns


async def test_a_broken_device_ends_the_process() -> None:
    model = Model()
    model.faults, model.broken = [RuntimeError("this one")], True
    async with running(model) as worker:
        with pytest.raises(WorkerUnavailable):
            await worker.diarize(REQUEST)
