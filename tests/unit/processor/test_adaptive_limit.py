"""The capacity of a machine in sessions, learnt from the lateness of their text."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.load.chunk_load import Tail
from auricle.processor.admission import FIRST, AdaptiveLimit

pytestmark = pytest.mark.unit
TARGET = 0.3


def tail(sessions: float, number: float, unloaded: float) -> Tail:
    """The tail of a queue on a machine that `number` sessions would keep fully busy."""
    seconds = unloaded / max(0.01, 1 - sessions / number)
    return Tail(0.7 * seconds, seconds)


def late(times: float) -> Tail:
    """Text that is `times` as late as permitted."""
    return Tail(times * TARGET, 1.2 * times * TARGET)


def learnt(number: float, unloaded: float, seconds: int = 300) -> AdaptiveLimit:
    """A limit that was always reached, on such a machine."""
    limit = AdaptiveLimit(TARGET)
    for _ in range(5 * seconds):
        sessions = min(limit.carried, number * 0.99)
        limit.observe(sessions, tail(sessions, number, unloaded), 0.2)
    return limit


@given(number=st.floats(10, 2000), unloaded=st.floats(0.005, 0.08))
def test_whatever_the_machine_its_sessions_keep_the_target_and_little_is_left(
    number: float, unloaded: float
) -> None:
    limit = learnt(number, unloaded)
    looks = []
    for _ in range(101):
        sessions = min(limit.carried, number * 0.99)
        looks.append((sessions, tail(sessions, number, unloaded)))
        limit.observe(*looks[-1], 0.2)
    assert statistics.median(found.p997 for _, found in looks) <= 0.85 * TARGET
    # The capacity of a fixed limit: the target, at a sustainable utilisation.
    most = number * min(0.9, 1 - unloaded / (0.85 * TARGET))
    assert statistics.median(sessions for sessions, _ in looks) >= 0.85 * most


@given(
    looks=st.lists(
        st.tuples(st.floats(0, 1e4), st.floats(0, 100), st.floats(0.01, 60)), max_size=200
    )
)
def test_whatever_was_measured_there_is_room_for_one_and_no_leap(
    looks: list[tuple[float, float, float]],
) -> None:
    limit = AdaptiveLimit(TARGET)
    for sessions, latency, seconds in looks:
        before = limit.carried
        limit.observe(sessions, Tail(latency, 1.5 * latency), seconds)
        assert 1 <= limit.carried <= max(before, 2 * sessions, FIRST) * (1 + 1e-9)


def test_it_begins_small_and_doubles_within_seconds() -> None:
    assert AdaptiveLimit(TARGET).carried == FIRST
    assert learnt(1000, 0.02, seconds=20).carried > 4 * FIRST


def test_half_the_machine_carries_half_as_many_and_the_whole_one_as_many_again() -> None:
    limit = learnt(100, 0.03)
    whole = limit.carried
    for number in (50, 100):
        for _ in range(120):
            sessions = min(limit.carried, 0.99 * number)
            limit.observe(sessions, tail(sessions, number, 0.03), 1.0)
        assert limit.carried == pytest.approx(whole * number / 100, rel=0.15)


def test_few_sessions_that_are_served_well_do_not_lower_what_was_learnt() -> None:
    limit = learnt(100, 0.03)
    before = limit.carried
    for _ in range(600):
        limit.observe(3, tail(3, 100, 0.03), 1.0)
    assert limit.carried == pytest.approx(before, rel=0.05)


def test_no_evidence_teaches_nothing() -> None:
    limit = learnt(100, 0.03)
    before = limit.carried
    for _ in range(100):
        limit.observe(0, Tail(5.0, 5.0), 1.0)
        limit.observe(5, Tail(), 1.0)
    assert limit.carried == before


def test_nobody_is_let_in_while_text_is_late_and_somebody_as_soon_as_it_is_not() -> None:
    limit = learnt(100, 0.03)
    limit.observe(60, late(1.1), 0.5)
    assert limit.admitted == 0
    limit.observe(60, late(0.9), 0.5)
    assert limit.admitted == round(limit.carried) > 1


def test_while_text_is_late_the_limit_falls_to_what_is_there() -> None:
    """Otherwise a machine that became slower would be filled again as soon as it catches up."""
    limit = learnt(100, 0.03)
    limit.observe(40, late(2), 0.5)
    assert limit.carried <= 40


def test_a_machine_that_became_slower_is_not_filled_again() -> None:
    limit = learnt(100, 0.03)
    sessions = 80.0
    while sessions > 35:  # half as fast; no session arrives, and some end
        limit.observe(sessions, late(2), 1.0)
        sessions -= 2
    for _ in range(30):
        assert limit.carried <= 1.2 * 35
        limit.observe(35, tail(35, 50, 0.06), 1.0)


def test_near_the_aim_it_moves_by_less_than_a_session_in_a_second() -> None:
    """Admitted sessions last a minute; one too many delays all of them for that time."""
    limit = learnt(40, 0.03)
    before = limit.carried
    limit.observe(before, Tail(0.1, 0.9 * 0.8 * TARGET), 1.0)
    assert before <= limit.carried < before + 0.1


def test_it_does_not_fall_far_below_the_sessions_there_are() -> None:
    """Sessions leave only when they end; if the limit kept falling, the machine would run idle."""
    limit = learnt(100, 0.03)
    for _ in range(60):
        limit.observe(80, late(0.95), 1.0)
    assert limit.carried == pytest.approx(0.93 * 80)


@pytest.mark.parametrize("sessions", [0, 1])
def test_a_bad_moment_with_few_sessions_keeps_nobody_out_for_long(sessions: int) -> None:
    limit = AdaptiveLimit(TARGET)
    for _ in range(10):
        limit.observe(2, late(5), 1.0)
    assert limit.carried <= 2
    for _ in range(20):
        limit.observe(sessions, late(0.1 * sessions), 1.0)
    assert limit.admitted == FIRST


def test_one_session_alone_that_is_late_keeps_nobody_out() -> None:
    """For example the first one after the start, whose chunks warm up the machine."""
    limit = AdaptiveLimit(TARGET)
    for _ in range(60):
        limit.observe(1, late(2), 0.5)
    assert limit.admitted == FIRST
