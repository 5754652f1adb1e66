"""A pass that fails: a bad batch or a broken device."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import torch

from auricle.core.errors import Overloaded, ProcessFailed
from auricle.load.pools import check_place
from auricle.process import device as device_thread
from auricle.process.device import DeviceThread
from auricle.process.device_faults import end_if_sticky

pytestmark = pytest.mark.unit


class Device:
    """Fails as scripted, and counts passes over silence."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.broken = False
        self.silences = 0
        self.threads: set[str] = set()

    def work(self, batch: list[int]) -> int:
        self.threads.add(threading.current_thread().name)
        if self.fault is not None:
            raise self.fault
        return sum(batch)

    def silence(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.silences += 1
        if self.broken:
            raise RuntimeError("silence fails")


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def thread(device: Device) -> Iterator[DeviceThread]:
    thread = DeviceThread("encoder", device.silence)
    yield thread
    thread.close()


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit status with which the process would have ended."""
    found: list[int] = []
    monkeypatch.setattr(device_thread, "end_if_sticky", partial(end_if_sticky, end=found.append))
    return found


async def test_all_passes_are_of_one_thread_which_answers(
    device: Device, thread: DeviceThread
) -> None:
    assert [await thread.run(device.work, [one, 2]) for one in range(3)] == [2, 3, 4]
    await thread.answers()
    assert device.silences == 0
    (name,) = device.threads
    assert name.startswith("encoder") and name != threading.current_thread().name


async def test_a_thread_answers_only_between_two_passes(thread: DeviceThread) -> None:
    gate, begun = threading.Event(), threading.Event()

    def work(_batch: None) -> None:
        begun.set()
        assert gate.wait(60)

    running = asyncio.create_task(thread.run(work, None))
    await asyncio.to_thread(begun.wait, 60)
    answered = asyncio.create_task(thread.answers())
    done, _ = await asyncio.wait([answered], timeout=0.05)
    assert not done
    gate.set()
    await running
    await answered


async def test_a_batch_that_fails_fails_alone(device: Device, thread: DeviceThread) -> None:
    device.fault = ValueError("this one")
    with pytest.raises(ValueError, match="this one"):
        await thread.run(device.work, [1])
    assert device.silences == 1
    device.fault = None
    assert await thread.run(device.work, [1]) == 1
    assert len(device.threads) == 1


async def test_a_device_that_fails_on_silence_too_is_broken(
    device: Device, thread: DeviceThread, caplog: pytest.LogCaptureFixture
) -> None:
    device.fault, device.broken = ValueError("this one"), True
    with pytest.raises(ProcessFailed, match="the encoder fails on silence too: silence fails"):
        await thread.run(device.work, [1])
    assert "a pass failed: this one" in caplog.text


async def test_a_device_without_memory_is_not_tried_on_silence(
    device: Device, thread: DeviceThread, ended: list[int]
) -> None:
    device.fault, device.broken = torch.OutOfMemoryError("CUDA out of memory."), True
    with pytest.raises(torch.OutOfMemoryError):
        await thread.run(device.work, [1])
    assert (device.silences, ended) == (0, [])


async def test_a_lost_device_ends_the_process_before_anything_else_calls_it(
    device: Device, thread: DeviceThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def end(_status: int) -> None:
        assert device.silences == 0
        raise Ended

    monkeypatch.setattr(device_thread, "end_if_sticky", partial(end_if_sticky, end=end))
    device.fault = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    with pytest.raises(Ended):
        await thread.run(device.work, [1])


@pytest.mark.parametrize(
    ("places", "background", "kept", "free"),
    [
        (8, False, 0, 8),
        (8, False, 1, 7),
        (8, True, 1, 4),
        (1, True, 0, 1),  # otherwise it would never serve recordings
    ],
)
def test_a_full_worker_refuses(places: int, background: bool, kept: int, free: int) -> None:
    for in_use in range(free):
        check_place(in_use, places, background=background, kept=kept)
    with pytest.raises(Overloaded, match=f"^{free} of {places} places are in use; try again$"):
        check_place(free, places, background=background, kept=kept)
