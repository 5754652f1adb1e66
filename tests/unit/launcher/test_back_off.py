"""A process that has served is restarted at once; one that repeatedly dies early waits longer."""

from __future__ import annotations

import pytest

from auricle.launcher.processes import BackOff, Process

pytestmark = pytest.mark.unit


def pauses(*healthy_seconds: float, start_seconds: float = 2.0) -> list[float]:
    """The pause after each of these deaths of one process."""
    back_off = BackOff()
    return [back_off.pause(seconds, start_seconds) for seconds in healthy_seconds]


def test_a_process_that_was_healthy_is_started_again_at_once_however_often_it_dies() -> None:
    assert pauses(*[10.0] * 20) == [0.0] * 20


def test_one_that_dies_at_its_start_is_started_again_at_once_and_then_ever_later() -> None:
    found = pauses(*[0.0] * 10)
    assert found[0] == 0.0
    assert found[1] > 0.0
    assert found == sorted(found)
    assert found[-1] == found[-2] == 30.0


def test_a_time_of_health_makes_earlier_deaths_forgotten() -> None:
    assert pauses(0.0, 0.0, 0.0, 10.0, 0.0) == [0.0, 1.0, 2.0, 0.0, 1.0]


def test_moments_between_two_deaths_do_not() -> None:
    assert pauses(9.9, 9.9, 9.9) == [0.0, 1.0, 2.0]


def test_what_takes_long_to_start_must_last_as_long() -> None:
    """Otherwise its starts would keep the machine busy."""
    assert pauses(25.0, 25.0, start_seconds=40.0) == [0.0, 1.0]
    assert pauses(40.0, 40.0, start_seconds=40.0) == [0.0, 0.0]


def process() -> Process:
    found = Process("worker", "worker", [], {})
    found.ready_at = 100.0
    return found


def test_health_counts_from_ready() -> None:
    assert process().healthy_seconds(112.0) == 12.0
    starting = process()
    starting.ready_at = None
    assert starting.healthy_seconds(112.0) == 0.0


def test_a_process_that_hung_was_healthy_until_its_last_answer() -> None:
    hung = process()
    hung.hung_at = 103.0
    assert hung.healthy_seconds(120.0) == 3.0
