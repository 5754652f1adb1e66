"""Waits with a deadline, and tasks that end together."""

import asyncio
import gc
import threading
import weakref

import pytest

from auricle.core.aio import (
    TIME_SLICE_SECONDS,
    Interrupted,
    ReusableTimeout,
    TimeSlice,
    first_failure_or,
    in_thread,
    with_timeout,
)
from auricle.core.errors import DeadlineExceeded

pytestmark = pytest.mark.unit


async def test_a_wait_that_is_too_long_says_what_was_waited_for() -> None:
    with pytest.raises(DeadlineExceeded, match=r"the post took longer than 0\.01 s"):
        await with_timeout(0.01, asyncio.Event().wait(), "the post")


async def test_a_cancellation_that_comes_with_the_result_is_not_lost() -> None:
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(with_timeout(10, result, "the result"))
    await asyncio.sleep(0)  # until it waits
    result.set_result(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thread_has_ended_when_who_waited_for_it_was_cancelled() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(60)
        ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_a_thread_returns_or_raises_is_passed_on() -> None:
    assert await in_thread(max, 1, 2) == 2
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_the_main_result_ends_the_others() -> None:
    async def seven() -> int:
        return 7

    other = asyncio.create_task(forever())
    assert await first_failure_or(asyncio.create_task(seven()), [other]) == 7
    assert other.cancelled()


async def test_a_failure_of_any_ends_all() -> None:
    async def fail() -> None:
        raise ValueError("no")

    main, failing = asyncio.create_task(forever()), asyncio.create_task(fail())
    with pytest.raises(ValueError, match="no"):
        await first_failure_or(main, [failing])
    assert main.cancelled()


async def test_many_waits_share_one_timer_and_each_has_its_deadline() -> None:
    timeout = ReusableTimeout()
    for number in range(100):
        ready = asyncio.get_running_loop().create_future()
        ready.set_result(number)
        assert await timeout.wait(10, ready, "a packet") == number
    with pytest.raises(DeadlineExceeded, match="the next packet took longer"):
        await timeout.wait(0.01, asyncio.Event().wait(), "the next packet")
    with pytest.raises(DeadlineExceeded):
        await timeout.wait(0.01, asyncio.Event().wait(), "the one after")
    timeout.close()


async def test_who_waited_is_not_held_until_the_deadline() -> None:
    """A failed task references its frames and so a whole session; its timer may run for an hour."""
    timeout = ReusableTimeout()
    ready = asyncio.get_running_loop().create_future()
    ready.set_result(None)
    waiting = asyncio.create_task(timeout.wait(3_600, ready, "a packet"))
    await waiting
    ended = weakref.ref(waiting)
    del waiting
    await asyncio.sleep(0)  # the loop itself references the callback that woke this task
    gc.collect()
    assert ended() is None
    timeout.close()


async def test_a_timer_nobody_waits_for_ends_by_itself() -> None:
    """A client may leave without `close()`; its timer must not run forever."""
    timeout = ReusableTimeout()
    ready = asyncio.get_running_loop().create_future()
    ready.set_result(None)
    await timeout.wait(10, ready, "a packet")
    assert timeout._timer is not None
    timeout._timer.cancel()
    timeout._on_timer()  # as the timer would
    assert timeout._timer is None
    with pytest.raises(DeadlineExceeded):
        await timeout.wait(0.01, asyncio.Event().wait(), "the next packet")
    timeout.close()


async def test_a_wait_can_be_interrupted_and_nothing_is_lost() -> None:
    timeout = ReusableTimeout()
    packets: asyncio.Queue[int] = asyncio.Queue()
    timeout.interrupt()  # without a wait in progress: no effect
    waiting = asyncio.create_task(timeout.wait(10, packets.get(), "a packet"))
    await asyncio.sleep(0)
    packets.put_nowait(1)
    timeout.interrupt()  # at the same time
    timeout.interrupt()
    with pytest.raises(Interrupted):
        await waiting
    assert waiting.cancelling() == 0
    assert await timeout.wait(10, packets.get(), "a packet") == 1
    timeout.close()


async def test_a_patient_task_can_be_cancelled() -> None:
    timeout = ReusableTimeout()
    task = asyncio.create_task(timeout.wait(10, asyncio.Event().wait(), "nothing"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    timeout.close()


async def test_a_time_slice_expires_and_others_run_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(TimeSlice, "clock", staticmethod(lambda: now))
    ran: list[str] = []

    async def busy(name: str) -> None:
        nonlocal now
        time_slice = TimeSlice()
        for _ in range(4):
            await time_slice.yield_if_expired()
            ran.append(name)
            now += TIME_SLICE_SECONDS / 2

    await asyncio.gather(busy("a"), busy("b"))
    assert "".join(ran) == "aabbaabb"


async def test_a_task_that_waits_anyway_does_not_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimeSlice, "clock", staticmethod(lambda: 0.0))
    time_slice = TimeSlice()
    time_slice.begin()
    assert not time_slice.expired
    await asyncio.sleep(0)
    assert time_slice._began is None
