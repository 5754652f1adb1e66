"""The results that the simulation of overload promises, on short runs."""

import pytest

from benchmarks.overload.simulation import Result, crowd, normal_after, slower, steady

pytestmark = pytest.mark.unit
SEEDS = (1, 2, 3)


def slo_share(results: list[Result]) -> float:
    """Return the share of all their sessions that is inside the SLO."""
    return sum(r.slo_share * r.ended for r in results) / sum(r.ended for r in results)


def goodput(results: list[Result]) -> float:
    """Return the mean goodput."""
    return sum(r.goodput for r in results) / len(results)


@pytest.mark.parametrize(("machine", "carried"), [("batching", 31), ("sharing", 22)])
def test_at_three_times_what_is_carried_those_let_in_keep_the_slo(
    machine: str, carried: int
) -> None:
    found = [steady(machine, 1.0, 3 * carried, 300.0, seed=seed) for seed in SEEDS]
    assert slo_share(found) >= 0.98
    assert goodput(found) >= 0.7 * carried  # including the beginning, before the limit is learnt
    assert all(result.refused > 0 for result in found)


def test_a_machine_of_half_the_speed_needs_no_other_setting() -> None:
    found = [steady("sharing", 0.5, 30, 300.0, seed=seed) for seed in SEEDS]
    assert slo_share(found) >= 0.97
    assert goodput(found) >= 6


def test_nobody_is_refused_where_a_quarter_of_what_is_carried_is_offered() -> None:
    assert steady("batching", 1.0, 7, 300.0).refused == 0


@pytest.mark.parametrize("machine", ["batching", "sharing"])
def test_after_the_machine_became_slower_those_let_in_keep_the_slo(machine: str) -> None:
    found = [slower(machine, (1.0, 0.5), 80.0, 400.0, seed) for seed in SEEDS]
    assert slo_share(found) >= 0.93


def test_a_machine_that_became_faster_carries_more_in_time() -> None:
    """A short spell of late text must not make all sessions late for longer than it lasts."""
    found = [slower("sharing", (0.5, 1.0), 84.0, 300.0, seed) for seed in SEEDS]
    assert slo_share(found) >= 0.95
    assert goodput(found) >= 15


def test_a_crowd_does_not_spoil_itself() -> None:
    assert crowd("batching", 100).slo_share >= 0.98


def test_after_a_flood_it_is_normal_within_ten_seconds() -> None:
    assert normal_after("sharing", 270.0) <= 10.0
