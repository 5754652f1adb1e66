"""The history of a planner's decisions, for operators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from auricle.core.errors import WorkerUnavailable
from auricle.load.reports import PoolObservation, ServiceObservation
from auricle.planner.policy import Decision, DecisionHistory, Why
from auricle.planner.service import PlannerService
from auricle.protocol.control import AskDecisions

pytestmark = pytest.mark.unit


def decided(was: int, replicas: int, why: Why = "forecast", pool: str = "pd_worker") -> Decision:
    return Decision(pool, was, replicas, why, f"demand {replicas}")


def test_a_decision_that_stays_the_same_is_one_entry_with_its_first_time() -> None:
    history = DecisionHistory()
    for at in (10.0, 20.0, 30.0):
        history.add(at, decided(1, 1, "hold"), applied=False)
        history.add(at, decided(2, 2, "hold", "encode_worker"), applied=False)
    history.add(40.0, decided(1, 2), applied=True)
    told = [(p.at, p.pool, p.was, p.replicas, p.why, p.steps, p.applied) for p in history.past]
    assert told == [
        (10.0, "pd_worker", 1, 1, "hold", 3, False),
        (10.0, "encode_worker", 2, 2, "hold", 3, False),
        (40.0, "pd_worker", 1, 2, "forecast", 1, True),
    ]


def test_only_the_last_hundred_are_kept() -> None:
    history = DecisionHistory()
    for step in range(250):
        history.add(float(step), decided(step, step + 1), applied=True)
    assert len(history.past) == 100
    assert (history.past[0].at, history.past[-1].at) == (150.0, 249.0)


class Pools:
    """A connector of one pool; it fails on request."""

    def __init__(self, failure: Exception | None = None, *, acts: bool = True) -> None:
        self.failure = failure
        self.acts = acts

    async def replicas(self) -> dict[str, int]:
        return {"pd_worker": 1}

    async def scale(self, kind: str, replicas: int) -> None:
        if self.failure is not None:
            raise self.failure


def planner(decision: Decision, connector: Pools, *, leads: bool) -> PlannerService:
    seen = PoolObservation(1.0, 1, 1, 0.5, 0.1)
    plan = SimpleNamespace(
        decide=lambda pools, service: {decision.pool: decision},
        forecast=lambda pool: 1.0,
        knee=lambda pool: 1.0,
    )
    board = SimpleNamespace(pool=lambda kind, count: seen, service=lambda: ServiceObservation(1, 1))
    metrics = SimpleNamespace(decided=lambda *_: None)
    leadership = SimpleNamespace(held=leads)
    parts = [cast(Any, part) for part in (plan, board, connector, leadership, metrics)]
    return PlannerService(*parts, 30.0, lambda: 1_000.0)


@pytest.mark.parametrize(
    ("leads", "acts", "applied"),
    [(True, True, True), (False, True, False), (True, False, False)],
    ids=["leader", "follower", "dry run"],
)
async def test_a_planner_says_what_it_did_when_and_why(
    leads: bool, acts: bool, applied: bool
) -> None:
    service = planner(decided(1, 2), Pools(acts=acts), leads=leads)
    await service._step()
    told = await service.decisions(AskDecisions())
    assert (told.leads, told.step_seconds) == (leads, 30.0)
    (past,) = told.past
    assert (past.at, past.was, past.replicas, past.why) == (1_000.0, 1, 2, "forecast")
    assert (past.detail, past.applied) == ("demand 2", applied)


async def test_a_decision_that_could_not_be_carried_out_is_not_called_applied() -> None:
    service = planner(decided(1, 2), Pools(WorkerUnavailable("no launcher")), leads=True)
    with pytest.raises(WorkerUnavailable):
        await service._step()
    assert [p.applied for p in (await service.decisions(AskDecisions())).past] == [False]
