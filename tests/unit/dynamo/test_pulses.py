"""The probes distinguish a hung worker from a slow one; callers move to another one if possible."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError, DeadlineExceeded, ProcessFailed, WorkerUnavailable
from auricle.dynamo import Pulses, PulseTimes
from auricle.process.liveness import Liveness, Watchdog, beat
from auricle.protocol.control import Alive, AskAlive
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
TIMES = PulseTimes(probe_after=0.005, answer=0.01, part=2.0, alone=0.2)


class Instances:
    """Instance 1, and perhaps others; `answers` are its replies to the next probes."""

    def __init__(self, *others: int) -> None:
        self.clock = Clock()
        self.clock.step = TIMES.probe_after
        self.answers: list[Alive | AuricleError] = []
        self.asked = 0
        self.left: list[int] = []
        self.lag = 0.0  # the duration in seconds of a probe without an answer
        self._others = list(others)
        self.all_asked = asyncio.Event()

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> Alive:
        assert isinstance(message, AskAlive)
        await asyncio.sleep(0)
        self.asked += 1
        self.clock.now += self.lag
        if not self.answers:
            self.all_asked.set()
            return Alive(0.0, "")
        answer = self.answers.pop(0)
        if isinstance(answer, AuricleError):
            raise answer
        return answer

    async def others(self, instance: int) -> list[int]:
        return self._others

    def suspect(self, instance: int) -> None:
        self.left.append(instance)

    def pulses(self) -> Pulses:
        return Pulses(self, self, TIMES, self.clock)  # type: ignore[arg-type]


async def never() -> str:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


NO_ANSWER = DeadlineExceeded("AskAlive took longer than 1 s")


async def test_a_call_that_is_answered_in_time_asks_nothing() -> None:
    async def quick() -> str:
        return "done"

    instances = Instances(2)
    assert await instances.pulses().during(1, quick()) == "done"
    assert instances.asked == 0


async def test_an_error_that_arrives_with_a_cancellation_is_not_logged_as_unexpected() -> None:
    loop = asyncio.get_running_loop()
    logged: list[str] = []
    loop.set_exception_handler(lambda _, context: logged.append(context["message"]))

    async def fails() -> str:
        raise WorkerUnavailable("refused")

    async def cancelled_as_it_fails() -> None:
        calling = asyncio.create_task(Instances().pulses().during(1, fails()))
        await asyncio.sleep(0)  # the call has begun
        await asyncio.sleep(0)  # and failed
        calling.cancel()
        await asyncio.wait([calling])
        assert calling.cancelled()

    await cancelled_as_it_fails()
    gc.collect()
    assert logged == []


async def test_an_instance_that_hangs_is_left_for_another() -> None:
    instances = Instances(2)
    instances.answers = [NO_ANSWER]
    with pytest.raises(WorkerUnavailable, match="instance 1 does not answer"):
        await instances.pulses().during(1, never())
    assert instances.left == [1]


async def test_one_whose_engine_or_thread_hangs_is_left_though_its_loop_answers() -> None:
    instances = Instances(2)
    instances.answers = [Alive(1.0, "vLLM"), Alive(2.0, "vLLM")]
    with pytest.raises(WorkerUnavailable):
        await instances.pulses().during(1, never())
    assert instances.asked == 2


async def slow(instances: Instances) -> str:
    """An answer that takes until no probe is left."""
    await instances.all_asked.wait()
    return "done"


async def test_a_slow_one_is_waited_for() -> None:
    instances = Instances(2)
    instances.answers = [Alive(0.0, "")] * 3
    assert await instances.pulses().during(1, slow(instances)) == "done"
    assert instances.left == []


async def test_the_only_one_is_waited_for_too() -> None:
    instances = Instances()
    instances.answers = [NO_ANSWER] * 3
    assert await instances.pulses().during(1, slow(instances)) == "done"


async def test_but_not_for_ever() -> None:
    instances = Instances()
    instances.answers = [NO_ANSWER] * 1_000
    with pytest.raises(WorkerUnavailable):
        await instances.pulses().during(1, never())
    assert instances.asked < 1_000


async def test_a_caller_that_hung_itself_does_not_blame_the_other() -> None:
    instances = Instances(2)
    instances.answers, instances.lag = [NO_ANSWER], 5.0
    assert await instances.pulses().during(1, slow(instances)) == "done"


async def test_a_question_that_fails_leaves_the_verdict_to_the_call() -> None:
    instances = Instances(2)
    instances.answers = [WorkerUnavailable("no such endpoint")]
    assert await instances.pulses().during(1, slow(instances)) == "done"


async def test_calls_at_the_same_time_share_an_answer() -> None:
    instances = Instances(2)
    instances.lag = instances.clock.step = 0.0
    pulses, end = instances.pulses(), asyncio.Event()
    calls = [asyncio.create_task(pulses.during(1, end.wait())) for _ in range(20)]
    await instances.all_asked.wait()
    await asyncio.sleep(0.02)  # several times the time after which a call is probed
    end.set()
    assert all(await asyncio.gather(*calls))
    assert instances.asked <= 20  # the clock stands still: no further probe


async def test_a_call_ends_when_its_session_moves() -> None:
    instances = Instances(2)
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    calling = asyncio.create_task(instances.pulses().during(1, never(), stop))
    await instances.all_asked.wait()
    stop.set_exception(WorkerUnavailable("moved"))
    with pytest.raises(WorkerUnavailable, match="moved"):
        await calling


async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    instances = Instances(2)
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await never()
        finally:
            ended.set()

    calling = asyncio.create_task(instances.pulses().during(1, work()))
    await instances.all_asked.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert ended.is_set()


# ── in the process that is asked ────────────────────────────────────────────


@pytest.fixture
async def asked() -> AsyncIterator[tuple[Clock, asyncio.Event, Liveness]]:
    clock, answer, begun = Clock(), asyncio.Event(), asyncio.Event()

    async def engine() -> None:
        begun.set()
        await answer.wait()

    async def thread() -> None:
        return None

    liveness = Liveness(clock)
    liveness.part("engine", engine)
    liveness.part("thread", thread)
    running = asyncio.create_task(liveness.run())
    await begun.wait()
    yield clock, answer, liveness
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_part_that_owes_an_answer_is_named(
    asked: tuple[Clock, asyncio.Event, Liveness],
) -> None:
    clock, answer, liveness = asked
    await asyncio.sleep(0)
    clock.now += 3.0
    assert (liveness.silence().part, liveness.silence().seconds) == ("engine", 3.0)
    answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.now += 3.0
    assert liveness.silence().seconds == 0.0


async def test_a_part_that_is_lost_ends_the_process() -> None:
    async def lost() -> None:
        raise WorkerUnavailable("its engine has ended")

    liveness = Liveness(Clock())
    liveness.part("engine", lost)
    with pytest.raises(WorkerUnavailable, match="its engine has ended"):
        await liveness.run()


async def test_a_part_that_is_silent_for_too_long_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then every beat is reported."""
    monkeypatch.setattr("auricle.process.liveness._BEAT_SECONDS", 0.001)
    beats = 0
    clock = Clock()

    def report() -> None:
        nonlocal beats
        beats += 1
        clock.now += 2.0

    monkeypatch.setattr("auricle.process.liveness.report_alive", report)
    liveness = Liveness(clock)
    begun = asyncio.Event()

    async def engine() -> None:
        begun.set()
        await never()

    liveness.part("engine", engine)
    running = asyncio.create_task(liveness.run())
    await begun.wait()
    with pytest.raises(ProcessFailed, match="engine has not answered for 16 s"):
        await beat(liveness, watchdog := Watchdog(15.0))
    watchdog.disarm()
    await cancelled([running])
    assert beats == 8


async def test_after_a_machine_stood_still_its_parts_are_waited_for_anew(
    asked: tuple[Clock, asyncio.Event, Liveness],
) -> None:
    clock, _, liveness = asked
    liveness.beat(4.0)
    clock.now += 3.0
    liveness.beat(4.0)
    assert liveness.silence().seconds == 3.0
    clock.now += 600.0
    liveness.beat(4.0)
    assert liveness.silence().seconds == 0.0
    clock.now += 3.0
    assert (liveness.silence().part, liveness.silence().seconds) == ("engine", 3.0)


def test_the_watchdog_counts_time_in_which_the_process_ran() -> None:
    clock, ends = Clock(), []
    watchdog = Watchdog(15.0, clock, lambda: ends.append(clock.now))

    def looks(count: int, seconds: float) -> None:
        for _ in range(count):
            clock.now += seconds
            watchdog.check()

    looks(28, 0.5)
    looks(1, 600.0)  # the machine was suspended; the loop has not run yet
    assert ends == []
    watchdog.beat()
    looks(29, 0.5)
    assert ends == []
    looks(1, 0.5)
    assert len(ends) == 1
    watchdog.disarm()


FROZEN = """
import asyncio, os, signal
from auricle.process.liveness import Liveness, beat
from auricle.process.liveness import Watchdog

async def main():
    beating = asyncio.create_task(beat(Liveness(), Watchdog(3.0)))
    await asyncio.sleep(1.5)
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    await asyncio.sleep(1.5)
    print("well", beating.done(), flush=True)
    os._exit(0)

asyncio.run(main())
"""


def test_a_process_that_was_stopped_for_longer_than_its_limit_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", FROZEN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"frozen\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(5)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == b"well False\n"


HANGS = """
import asyncio, time
from auricle.process.liveness import Liveness, beat
from auricle.process.liveness import Watchdog

async def main():
    beating = asyncio.create_task(beat(Liveness(), Watchdog(0.2)))
    await asyncio.sleep(0)
    time.sleep(60)

asyncio.run(main())
"""


def test_a_blocked_loop_ends_the_process_and_shows_where() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in main" in done.stderr
