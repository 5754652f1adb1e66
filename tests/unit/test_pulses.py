"""A worker that hangs is told from one that is slow, and left where there is another one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from auricle.errors import AuricleError, DeadlineExceeded, ProcessFailed, WorkerUnavailable
from auricle.messages import Alive, AskAlive
from auricle.process.liveness import Liveness, beat
from auricle.runtime import Pulses, PulseTimes
from auricle.tasks import cancelled

pytestmark = pytest.mark.unit
TIMES = PulseTimes(patience=0.005, answer=0.01, part=2.0, alone=0.2)


class Clock:
    """Goes on by `step` whenever it is looked at."""

    now = 100.0
    step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Instances:
    """Instance 1, and perhaps others; `answers` is what it says to the next questions."""

    def __init__(self, *others: int) -> None:
        self.clock = Clock()
        self.clock.step = TIMES.patience
        self.answers: list[Alive | AuricleError] = []
        self.asked = 0
        self.left: list[int] = []
        self.lag = 0.0  # seconds that a question without an answer takes
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
    """An answer that takes until there is nothing left to ask."""
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
    await asyncio.sleep(0.02)  # several times the patience of every call
    end.set()
    assert all(await asyncio.gather(*calls))
    assert instances.asked <= 20  # the clock stands still: nobody asks again


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
    """Until then every beat starts the watchdog's count again, and is told."""
    armed: list[float] = []
    monkeypatch.setattr(
        "faulthandler.dump_traceback_later", lambda seconds, **_: armed.append(seconds)
    )
    monkeypatch.setattr("auricle.process.liveness._BEAT_SECONDS", 0.001)
    beats: list[int] = []
    clock = Clock()

    def report() -> None:
        beats.append(len(armed))
        clock.now += 4.0

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
        await beat(liveness, 15.0)
    await cancelled([running])
    assert (len(armed), beats) == (5, [1, 2, 3, 4])


HANGS = """
import asyncio, time
from auricle.process.liveness import Liveness, beat

async def main():
    beating = asyncio.create_task(beat(Liveness(), 0.2))
    await asyncio.sleep(0)
    time.sleep(60)

asyncio.run(main())
"""


def test_a_blocked_loop_ends_the_process_and_shows_where() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in main" in done.stderr
