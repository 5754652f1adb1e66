"""A reader times reads from each encode worker that it meets. A copy in memory replaces NIXL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from auricle.core.errors import WindowsMissing
from auricle.embeddings import read_timer
from auricle.embeddings.fetch import WindowFetcher
from auricle.embeddings.metrics import LandingMetrics
from auricle.embeddings.read_timer import ReadTimer
from auricle.embeddings.reads import PendingRead
from auricle.ops.read_rates import GPU, least_rate
from auricle.process.metrics import ComponentMetrics
from auricle.protocol.diagnosis import RunningModel, TimedRead
from auricle.protocol.recognition import DecodeWindow
from auricle_testing.server import eventually
from tests.unit.embeddings.test_fetch import LAYOUT, A, B, Bench, CopyEndpoint

pytestmark = pytest.mark.unit
WINDOWS = 512  # of this small layout, in one timed read
SIZE = WINDOWS * LAYOUT.content_bytes(LAYOUT.max_length)


class TimedEndpoint(CopyEndpoint):
    """Its reads take 1 ms, or `seconds` in turn."""

    backends = ("UCX",)

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def finish(self, read: PendingRead) -> None:
        read.seconds = self.seconds.pop(0) if self.seconds else 0.001
        super().finish(read)


class Timed(Bench):
    """A bench whose fetcher times reads."""

    def __init__(self, slots: int = 4) -> None:
        super().__init__(slots)
        self.registry = CollectorRegistry()
        self.endpoint: TimedEndpoint = TimedEndpoint()
        self.fetcher = WindowFetcher(
            self.local,
            self.endpoint,  # type: ignore[arg-type]
            RunningModel("f", "float32"),
            60.0,
            LandingMetrics(ComponentMetrics(self.registry, "pd_worker")),
        )

    @property
    def timer(self) -> ReadTimer:
        return self.fetcher.timer

    @property
    def timed_reads(self) -> list[int]:
        """The number of windows of each timed read."""
        steps = [request.steps[0] for request in self.endpoint.requests]
        return [len(step.local) for step in steps if len(step.local) > 1]

    async def fetch(self, *windows: DecodeWindow) -> None:
        async with self.fetcher.pinned(windows):
            pass

    async def timing(self) -> None:
        """Wait until the timer has done what waits for it."""
        timer = self.timer
        await eventually(lambda: None not in timer._known.values(), seconds=60)


@asynccontextmanager
async def running(slots: int = 4) -> AsyncIterator[Timed]:
    bench = Timed(slots)
    task = asyncio.create_task(bench.timer.run())
    await asyncio.sleep(0)
    yield bench
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_fastest_of_three_reads_is_the_rate(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "auricle.embeddings.read_timer")
    async with running() as bench:
        bench.endpoint.seconds = [0.1, 0.0004, 0.0002, 0.0005]  # the first is the request's own
        await bench.fetch(bench.window(A))
        await bench.timing()
        assert bench.timed_reads == [WINDOWS] * 3
        assert bench.timer.reads() == (TimedRead("enc", "host", SIZE, 0.0002),)
        rate = bench.registry.get_sample_value(
            "auricle_pd_worker_timed_read_bytes_per_second", {"memory": "host"}
        )
        assert rate == SIZE / 0.0002
        (line,) = caplog.messages
        assert line.startswith("reads 0.49 GB/s from enc, from memory of the host to memory of")
        assert "over NIXL's UCX (0.1 MB in 0.2 ms)" in line


async def test_the_lease_of_the_window_ends_with_the_last_timed_read() -> None:
    """The owner drives progress, and keeps the slot, while a lease is open."""
    async with running() as bench:
        await bench.fetch(bench.window(A), bench.window(B, 1))
        await bench.timing()
        assert [r.notice for r in bench.endpoint.requests] == [b"", b"", b"", b"70,71"]
        assert bench.endpoint.notices == []


async def test_an_encode_worker_is_timed_once_and_another_one_anew() -> None:
    async with running() as bench:
        await bench.fetch(bench.window(A))
        await bench.timing()
        await bench.fetch(bench.window(B, 1))
        assert len(bench.timed_reads) == 3
        await bench.fetch(bench.window("cc" * 24, 2, agent="other"))
        await bench.timing()
        assert len(bench.timed_reads) == 6
        assert [read.agent for read in bench.timer.reads()] == ["enc", "other"]


async def test_timed_reads_leave_all_slots_as_they_were() -> None:
    async with running() as bench:
        window = bench.window(A)
        await bench.fetch(window)
        await bench.timing()
        table = bench.fetcher.table
        assert (table.in_use, table.pinned) == (1, 0)
        slot = table.find(A)
        assert slot is not None
        bench.local.verify(slot.index, A, slot.generation, 3)
        bench.remote.verify(0, A, 5, 3)


async def test_a_read_that_fails_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as bench:
        bench.endpoint.between = lambda: setattr(bench.endpoint, "fail", "peer is gone")
        await bench.fetch(bench.window(A))
        await bench.timing()
        assert bench.timer.reads() == (TimedRead("enc", "host", fault="peer is gone"),)
        assert caplog.messages == ["Reads from enc could not be timed: peer is gone"]
        bench.endpoint.fail, bench.endpoint.between = None, lambda: None
        await bench.fetch(bench.window(B, 1))  # later reads work
        assert bench.fetcher.table.find(B) is not None


async def test_an_unexpected_error_does_not_end_the_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> TimedRead:
        raise ZeroDivisionError

    monkeypatch.setattr(ReadTimer, "_timed", broken)
    async with running() as bench:
        await bench.fetch(bench.window(A))
        await bench.timing()
        assert caplog.messages == ["Reads from enc could not be timed: ZeroDivisionError"]
        assert caplog.records[0].exc_info


async def test_a_slot_is_free_only_after_a_late_read_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("auricle.embeddings.landing._THREAD_SECONDS", 0.0)
    monkeypatch.setattr(read_timer, "_DEADLINE_SECONDS", 0.01)
    async with running() as bench:
        bench.endpoint.between = lambda: setattr(bench.endpoint, "held", [])
        await bench.fetch(bench.window(A))
        await bench.timing()
        assert bench.timer.reads()[0].fault == "the NIXL thread took longer than 0.01 s"
        assert bench.fetcher.table.in_use == 2
        assert bench.endpoint.held
        bench.endpoint.held[0].ended.set_result(None)
        await eventually(lambda: bench.fetcher.table.in_use == 1, seconds=60)


async def test_an_encode_worker_that_was_never_readable_is_an_error_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as bench:
        bench.endpoint.fail = "no route"
        for _ in range(2):
            with pytest.raises(WindowsMissing):
                await bench.fetch(bench.window(A))
        errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
        assert errors == ["No embeddings were read from enc so far: no route"]


async def test_leases_end_at_once_if_too_many_encode_workers_wait() -> None:
    async with running() as bench:
        bench.endpoint.between = lambda: setattr(bench.endpoint, "held", [])
        await bench.fetch(bench.window(A))  # its timed read does not end
        ref = bench.window(B, 1).ref
        assert ref is not None
        await bench.endpoint.begun.wait()
        for number in range(read_timer.MOST_WAITING + 1):
            bench.timer.time(replace(ref, agent=f"agent-{number}"), b"%d" % number)
        last = read_timer.MOST_WAITING
        assert bench.endpoint.notices == [(f"agent-{last}", b"%d" % last)]
        assert bench.timer.is_new(f"agent-{last}")


async def test_nothing_is_timed_before_the_worker_serves() -> None:
    bench = Timed()
    await bench.fetch(bench.window(A))
    assert [r.notice for r in bench.endpoint.requests] == [b"70"]


@pytest.mark.parametrize(
    ("owner", "reader", "gigabytes"),
    [(GPU, GPU, 1), (GPU, "host", 0.1), ("host", GPU, 0.1), ("host", "host", 0.1)],
)
def test_gpus_are_expected_to_read_each_other_without_the_host(
    owner: str, reader: str, gigabytes: float
) -> None:
    assert least_rate(owner, reader) == gigabytes * 1e9
