"""The queue of the single thread of an engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError

import pytest

from auricle.core.errors import Overloaded, WorkerUnavailable
from auricle.workers.pd.engine import GenerateRequest
from auricle.workers.pd.jobs import DecodeJob, Jobs

pytestmark = pytest.mark.unit
WAIT_SECONDS = 60.0


def alone(taken: Sequence[DecodeJob], job: DecodeJob) -> bool:
    return False


def job(priority: int = 1) -> DecodeJob:
    request = GenerateRequest("r", (1,), (), (2,), (3,), 4, priority=priority, tenant="t")
    return DecodeJob(request, stop_tokens=frozenset({3}), reusable_windows=0, prompt_tokens=2)


def test_the_lowest_priority_runs_first_and_equal_ones_in_turn() -> None:
    jobs = Jobs(8)
    late, first, second, early = job(2), job(1), job(1), job(0)
    for one in (late, first, second, early):
        jobs.put(one)
    assert [jobs.take(alone) for _ in range(4)] == [[early], [first], [second], [late]]


def test_those_that_can_be_computed_together_are_taken_together_in_their_order() -> None:
    jobs = Jobs(8)
    late, first, second, early = job(2), job(1), job(1), job(0)
    for one in (late, first, second, early):
        jobs.put(one)

    def two_but_late(taken: Sequence[DecodeJob], one: DecodeJob) -> bool:
        return len(taken) < 2 and one is not late

    assert jobs.take(two_but_late) == [early, first]
    assert jobs.take(two_but_late) == [second]
    assert jobs.take(two_but_late) == [late]


def test_no_more_wait_than_may() -> None:
    jobs = Jobs(2)
    jobs.put(job())
    jobs.put(job())
    jobs.take(alone)
    with pytest.raises(Overloaded, match="2 requests wait for the engine; try again"):
        jobs.put(job())
    jobs.take(alone)  # the previous one has ended
    jobs.put(job())


def test_a_job_that_is_withdrawn_is_not_run() -> None:
    jobs = Jobs(8)
    gone, left = job(), job()
    jobs.put(gone)
    jobs.put(left)
    assert jobs.withdraw(gone)
    assert jobs.take(alone) == [left]
    assert not jobs.withdraw(left)  # it runs, and its thread checks the flag
    assert left.withdrawn


def test_questions_are_answered_between_two_steps() -> None:
    jobs = Jobs(8)
    jobs.put(job())
    jobs.take(alone)
    ping = jobs.ping()
    assert not ping.done()
    assert jobs.between_steps()
    assert ping.result(0) is None


def test_a_thread_that_waits_answers_at_once() -> None:
    jobs = Jobs(8)
    thread = threading.Thread(target=jobs.take, args=(alone,))
    thread.start()
    try:
        assert jobs.ping().result(WAIT_SECONDS) is None
    finally:
        jobs.close()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_once_it_is_closed_all_that_waits_and_all_that_comes_fails() -> None:
    jobs = Jobs(8)
    running, waiting = job(0), job(1)
    jobs.put(running)
    jobs.put(waiting)
    jobs.take(alone)
    ping = jobs.ping()
    ping.cancel()
    other = jobs.ping()
    jobs.close()
    for outcome in (waiting.outcome, other):
        with pytest.raises(WorkerUnavailable, match="has ended"):
            outcome.result(0)
    with pytest.raises(CancelledError):
        ping.result(0)
    assert not running.outcome.done()
    assert not jobs.between_steps()
    assert jobs.take(alone) == []
    for refused in (lambda: jobs.put(job()), jobs.ping):
        with pytest.raises(WorkerUnavailable):
            refused()
