"""What the simulation of overload promises, on short runs of it."""

import pytest

from benchmarks.overload.simulation import crowd, normal_after, slower, steady

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("machine", "carried"), [("batching", 36), ("sharing", 27)])
def test_at_three_times_what_is_carried_those_let_in_keep_the_slo(
    machine: str, carried: int
) -> None:
    found = steady(machine, 1.0, 3 * carried, 300.0)
    assert found.slo_share >= 0.98  # of some 220 sessions
    assert found.goodput >= 0.75 * carried  # the beginning included, when nothing is known
    assert found.refused > 0


def test_a_machine_of_half_the_speed_needs_no_other_setting() -> None:
    found = steady("sharing", 0.5, 30, 300.0)
    assert found.slo_share >= 0.98
    assert found.goodput >= 7


def test_nobody_is_refused_where_a_quarter_of_what_is_carried_is_offered() -> None:
    assert steady("batching", 1.0, 9, 300.0).refused == 0


@pytest.mark.parametrize("machine", ["batching", "sharing"])
def test_after_the_machine_became_slower_those_let_in_keep_the_slo(machine: str) -> None:
    """Without forgetting what it was before, one in ten would not."""
    assert slower(machine, (1.0, 0.5), 80.0, 400.0).slo_share >= 0.98


def test_a_machine_that_became_faster_carries_more_in_time() -> None:
    """A short spell of late text must not make all sessions late for longer than it lasts."""
    found = slower("sharing", (0.5, 1.0), 84.0, 300.0)
    assert found.slo_share >= 0.95
    assert found.goodput >= 20


def test_a_crowd_does_not_spoil_itself() -> None:
    assert crowd("batching", 100).slo_share >= 0.98


def test_after_a_flood_it_is_normal_within_ten_seconds() -> None:
    assert normal_after("sharing", 270.0) <= 10.0
