"""Figures of the benchmark of live sessions, without a server."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.live_cost import latencies, observed
from benchmarks.load.plan import SessionPlan
from benchmarks.load.record import Record, TextEvent

pytestmark = pytest.mark.unit


class Counting:
    """Stands for a server whose counters each grow by ten between two looks."""

    def __init__(self) -> None:
        self.looks = 0
        self.process = SimpleNamespace(pid=os.getpid())

    def metrics(self, _component: str, *names: str) -> list[float]:
        self.looks += 1
        return [10.0 * self.looks] * len(names)


def test_cpu_and_tokens_are_those_of_the_block() -> None:
    found: dict[str, float] = {"ready": 1.0}
    with observed(Counting(), found, audio=4.0):  # type: ignore[arg-type]
        sum(range(1_000_000))
    assert found["decodes"] == 10
    assert found["decode_steps_per_decode"] == 1
    assert found["cpu"] > 0 and found["mib"] > 0 and found["ready"] == 1.0


def record(outcome: str) -> Record:
    plan = SessionPlan("one", np.zeros(16_000, np.int16), (), ((0.0, 1.0),))
    told = [TextEvent(1.5, 0, "a", "b", False, 0.5), TextEvent(2.5, 0, "a b", "", True, 1.0)]
    due = [0.1 * number for number in range(1, 11)]
    return Record(plan, 0.1, 0.0, outcome, stopped_at=1.0, due_at=due, sent_at=due, events=told)


def test_refused_sessions_are_counted_and_give_no_latency() -> None:
    found = latencies([record("done"), record("refused")], ())
    assert (found["refused"], found["partials"]) == (1, 1)
    assert found["latency_median"] == pytest.approx(1.0)
    assert found["stop_to_final"] == pytest.approx(1.5)
