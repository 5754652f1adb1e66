"""Which workers, by the planner's own log, were ordered without need."""

from __future__ import annotations

import pytest

from auricle.planner.decision import Decision, Why
from benchmarks.planner.from_idle import decided, not_needed

pytestmark = pytest.mark.unit


def line(pool: str, was: int, replicas: int, demand: float, carries: float = 1.0) -> str:
    """A line of the log, as the launcher shows it."""
    detail = f"demand {demand:.2f}, in 2 steps 0.00, a worker carries {carries:.2f}"
    why: Why = "hold" if was == replicas else "forecast"
    decision = Decision(pool, was, replicas, why, detail)
    return f"Planner | INFO auricle.planner.service: {decision.line()}"


def test_every_decision_is_read_from_the_log_and_nothing_else_is() -> None:
    log = [
        "Planner | INFO auricle.planner.main: planning every 30 s",
        line("encode_worker", 1, 1, 0.19),
        line("pd_worker", 1, 8, 0.5),
    ]
    steps = decided(log)
    assert [(s.pool, s.was, s.replicas, s.demand) for s in steps] == [
        ("encode_worker", 1, 1, 0.19),
        ("pd_worker", 1, 8, 0.5),
    ]


def test_a_worker_that_the_next_demand_fills_was_needed() -> None:
    log = [line("pd_worker", 1, 2, 0.9), line("pd_worker", 2, 2, 1.3)]
    assert not_needed(decided(log)) == 0


def test_a_worker_that_the_next_demand_leaves_idle_was_not() -> None:
    log = [line("pd_worker", 1, 8, 0.9), line("pd_worker", 8, 8, 1.3)]
    assert not_needed(decided(log)) == 6


def test_what_a_worker_carries_decides_how_many_are_needed() -> None:
    log = [line("pd_worker", 1, 2, 0.5, 0.4), line("pd_worker", 2, 2, 0.7, 0.4)]
    assert not_needed(decided(log)) == 0


def test_the_other_pools_demand_needs_no_worker_of_this_one() -> None:
    log = [
        line("encode_worker", 1, 2, 0.3),
        line("pd_worker", 1, 1, 1.0),
        line("encode_worker", 2, 1, 0.3),
        line("pd_worker", 1, 1, 5.0),
    ]
    assert not_needed(decided(log)) == 1


def test_an_order_at_the_end_and_one_that_was_there_before_are_told_apart() -> None:
    assert not_needed(decided([line("pd_worker", 1, 2, 1.5)])) == 1
    assert not_needed(decided([line("pd_worker", 2, 2, 0.1)])) == 0
