"""Load reports: measured in workers, collected where decisions are made."""

from __future__ import annotations

import math

import pytest

from auricle.core.errors import (
    AuricleError,
    BadRequest,
    Overloaded,
    WindowsMissing,
    WorkerUnavailable,
)
from auricle.load.capacity_profile import CapacityProfile, PoolProfile
from auricle.load.load_board import LoadBoard
from auricle.load.meters import WorkMeter
from auricle.load.report_cache import ProcessorLoads, WorkerLoads
from auricle.load.reports import ProcessorLoad
from tests.fakes.clock import Clock
from tests.fakes.load import worker

pytestmark = pytest.mark.unit
POOL = PoolProfile({"decodes": 0.01, "steps": 0.001}, 0.2, 30.0)
PROFILE = CapacityProfile("c", "m", "d", PoolProfile({"windows": 0.1}, 0.1, 10.0), POOL)


# ── in a worker ─────────────────────────────────────────────────────────────


def test_a_meter_counts_what_was_done_since_it_was_asked_last() -> None:
    clock = Clock()
    meter = WorkMeter(clock)
    with meter.request():
        clock.now += 1.0
        with meter.request():
            clock.now += 0.5
    meter.did(steps=30)
    clock.now += 0.5
    did = meter.take()
    assert did.seconds == 2.0
    assert did.busy == 0.75
    assert did.under_way == 1.0
    assert did.requests_per_second == 1.0
    assert did.work == {"steps": 15.0}
    assert did.response_seconds == pytest.approx(1.45)
    clock.now += 1.0
    assert meter.take().work == {}


def test_a_request_that_goes_on_counts_in_every_interval() -> None:
    clock = Clock()
    meter = WorkMeter(clock)
    with meter.request():
        clock.now += 1.0
        assert meter.take().busy == 1.0
        clock.now += 1.0
        assert meter.take().under_way == 1.0


def test_refusals_are_no_requests() -> None:
    clock = Clock()
    meter = WorkMeter(clock)
    with pytest.raises(Overloaded), meter.request():
        raise Overloaded("full")
    clock.now += 1.0
    did = meter.take()
    assert (did.requests_per_second, did.refused_per_second) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (WorkerUnavailable("the device is broken"), 1.0),
        (AuricleError("not finite"), 1.0),
        (RuntimeError("CUDA error"), 1.0),
        (BadRequest("wrong"), 0.0),
        (WindowsMissing(("k",), "gone"), 0.0),
    ],
)
def test_what_fails_by_the_workers_fault_is_counted(error: Exception, failed: float) -> None:
    clock = Clock()
    meter = WorkMeter(clock)
    with pytest.raises(type(error)), meter.request():
        raise error
    clock.now += 1.0
    did = meter.take()
    assert (did.requests_per_second, did.failed_per_second) == (0.0, failed)


# ── in a planner ────────────────────────────────────────────────────────────


def test_a_pool_s_load_is_that_of_its_workers_in_workers_at_the_knee() -> None:
    board = LoadBoard(PROFILE, 30.0, Clock())
    for instance in (1, 2, 3):
        board.worker(worker(instance))
    seen = board.pool("pd_worker", replicas=4)
    assert (seen.replicas, seen.ready) == (4, 3)
    assert seen.load == pytest.approx(3 * (20 * 0.01 + 100 * 0.001))
    assert seen.response == pytest.approx(0.1)


def test_only_reports_of_the_last_step_count() -> None:
    clock = Clock()
    board = LoadBoard(PROFILE, 4.0, clock)
    board.worker(worker(1, work={"decodes": 100.0}))
    for _ in range(3):
        clock.now += 2.0
        board.worker(worker(1, work={"decodes": 10.0}))
    assert board.pool("pd_worker", 1).load == pytest.approx(0.1)


def test_a_worker_that_is_silent_is_gone_and_one_that_drains_is_not_ready() -> None:
    clock = Clock()
    board = LoadBoard(PROFILE, 30.0, clock)
    board.worker(worker(1))
    clock.now += 7.0
    board.worker(worker(2, draining=True))
    seen = board.pool("pd_worker", 1)
    assert seen.ready == 0
    assert seen.load == pytest.approx(0.3)  # its work still counts


def test_refusals_are_an_endless_response() -> None:
    board = LoadBoard(PROFILE, 30.0, Clock())
    board.worker(worker(1, refused_per_second=2.0))
    assert board.pool("pd_worker", 1).response == math.inf


def test_sessions_of_all_processors_are_added_up() -> None:
    board = LoadBoard(PROFILE, 30.0, Clock())
    board.processor(ProcessorLoad(1, 2.0, 10, 4, 3.0, 0.1))
    board.processor(ProcessorLoad(2, 2.0, 20, 6, 0.0, 0.1))
    seen = board.service()
    assert (seen.active, seen.speaking, seen.waiting) == (30, 10, 3.0)
    assert seen.unmet == pytest.approx(1.1)


# ── in a processor ──────────────────────────────────────────────────────────


def test_a_segment_goes_where_there_is_most_room() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=8.0))
    loads.update(worker(2, slots_used=4.0, kv_usage=0.7))
    loads.update(worker(3, slots_used=5.0))
    assert loads.best((1, 2, 3), {}, {}) == 3


def test_what_was_placed_since_the_last_report_counts() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=4.0))
    loads.update(worker(2, slots_used=6.0))
    for _ in range(3):
        loads.sent(1)
    assert loads.best((1, 2), {}, {}) == 2
    loads.update(worker(1, slots_used=4.0))
    assert loads.best((1, 2), {}, {}) == 1


def test_a_new_worker_gets_segments_at_once() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=2.0))
    assert loads.best((1, 9), {}, {}) == 9


def test_between_equals_the_faster_one_is_taken() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, step_seconds=0.02))
    loads.update(worker(2, step_seconds=0.01))
    assert loads.best((1, 2), {}, {}) == 2


def test_a_worker_that_refuses_is_full() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=1.0, refused_per_second=1.0))
    loads.update(worker(2, slots_used=12.0))
    assert loads.best((1, 2), {}, {}) == 2


def test_a_worker_that_fails_fast_does_not_look_empty() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=0.0, requests_per_second=0.0, failed_per_second=50.0))
    loads.update(worker(2, slots_used=12.0))
    assert loads.best((1, 2), {}, {}) == 2


def test_one_failed_request_of_many_moves_little() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=2.0, requests_per_second=20.0, failed_per_second=0.5))
    loads.update(worker(2, slots_used=4.0))
    assert loads.best((1, 2), {}, {}) == 1


def test_nothing_new_goes_to_a_worker_that_drains_unless_there_is_no_other() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, draining=True))
    assert loads.open([1, 2]) == [2]
    assert loads.open([1]) == [1]


def test_of_workers_as_empty_the_one_with_most_of_the_prompt_is_taken() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=1.0))
    loads.update(worker(2, slots_used=4.0))
    loads.update(worker(3, slots_used=2.0))
    assert loads.best((1, 2, 3), {}, {2: 320, 3: 64}) == 2
    assert loads.best((1, 3), {}, {2: 320}) == 1  # the instance that holds it is gone


def test_no_prompt_is_worth_a_worker_that_is_much_fuller() -> None:
    loads = WorkerLoads(Clock())
    loads.update(worker(1, slots_used=8.0))
    loads.update(worker(2, slots_used=13.0))
    assert loads.best((1, 2), {}, {2: 320}) == 1
    loads.update(worker(1, slots_used=13.0))
    loads.update(worker(2, slots_used=15.0))  # nearly full, and would reject
    assert loads.best((1, 2), {}, {2: 320}) == 1


def test_where_nothing_is_known_segments_spread() -> None:
    loads = WorkerLoads(Clock())
    assert loads.best((1, 2), {1: 3, 2: 2}, {}) == 2


def test_a_worker_that_falls_silent_gets_nothing_new_while_others_answer() -> None:
    clock = Clock()
    loads = WorkerLoads(clock)
    loads.update(worker(1, slots_used=0.0))
    loads.update(worker(2, slots_used=12.0))
    assert loads.open([1, 2]) == [1, 2]
    clock.now += 7.0  # more than three intervals
    loads.update(worker(2, slots_used=12.0))
    assert loads.open([1, 2]) == [2]
    assert loads.open([1]) == [1]  # the only one left
    loads.update(worker(1))
    assert loads.open([1, 2]) == [1, 2]


def test_one_that_never_reported_is_new_for_three_intervals_only() -> None:
    clock = Clock()
    loads = WorkerLoads(clock)
    loads.update(worker(1))
    assert loads.open([1, 9]) == [1, 9]
    clock.now += 7.0
    loads.update(worker(1))
    assert loads.open([1, 9]) == [1]


def test_if_nobody_reports_any_more_it_is_the_reports_that_are_lost() -> None:
    """Alternatively, this process hung and has not read them yet."""
    clock = Clock()
    loads = WorkerLoads(clock)
    loads.update(worker(1))
    clock.now += 3.0
    loads.update(worker(2))
    clock.now += 60.0
    assert loads.open([1, 2]) == [1, 2]


def test_a_silent_worker_is_worse_than_one_that_drains() -> None:
    clock = Clock()
    loads = WorkerLoads(clock)
    loads.update(worker(1))
    clock.now += 7.0
    loads.update(worker(2, draining=True))
    assert loads.open([1, 2]) == [2]


def test_what_is_silent_for_long_is_forgotten() -> None:
    clock = Clock()
    loads = WorkerLoads(clock)
    loads.update(worker(1, draining=True))
    clock.now += 1000.0
    loads.update(worker(2))
    assert loads.last(1) is None


# ── in a frontend ───────────────────────────────────────────────────────────


def test_a_session_goes_to_the_processor_with_the_fewest_that_stays() -> None:
    loads = ProcessorLoads(Clock())
    loads.update(ProcessorLoad(1, 2.0, 5, 0, 0.0, 0.1))
    loads.update(ProcessorLoad(2, 2.0, 3, 0, 0.0, 0.1))
    loads.update(ProcessorLoad(3, 2.0, 0, 0, 0.0, 0.1, draining=True))
    staying = loads.staying([1, 2, 3])
    assert [loads.chosen(staying) for _ in range(5)] == [2, 2, 1, 2, 1]


def test_no_session_goes_to_a_processor_that_is_silent() -> None:
    clock = Clock()
    loads = ProcessorLoads(clock)
    loads.update(ProcessorLoad(1, 2.0, 0, 0, 0.0, 0.1))
    clock.now += 7.0
    loads.update(ProcessorLoad(2, 2.0, 30, 0, 0.0, 0.1))
    assert loads.staying([1, 2]) == [2]
    assert loads.staying([1]) == [1]
