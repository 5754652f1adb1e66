"""Optional pools: sized by demand, and empty without demand."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from auricle.config.settings import PlannerSettings
from auricle.core.errors import SettingsError, WorkerUnavailable
from auricle.load.capacity_profile import CapacityProfile, PoolProfile, read_profile
from auricle.load.load_board import LoadBoard
from auricle.load.meters import DemandMeter
from auricle.load.pools import OPTIONAL_POOLS, POOLS, Starting
from auricle.load.reporter import LoadGauges
from auricle.load.reports import (
    DemandReport,
    PoolObservation,
    ProcessorLoad,
    ServiceObservation,
    StartingPools,
    WorkerLoad,
)
from auricle.planner.main import sized
from auricle.planner.plan import Plan, pool_plan
from auricle.planner.policy import Decision
from auricle.planner.service import PlannerService
from auricle.process.metrics import Registry
from tests.fakes.clock import Clock

pytestmark = pytest.mark.unit
STEP = 30.0
QUIET = ServiceObservation(active=10, speaking=5)
COSTS = PoolProfile({"speech_seconds": 0.1}, 0.2, 10.0)
PROFILE = CapacityProfile(
    *("c", "m", "d"),
    encode_worker=PoolProfile({"windows": 0.1}, 0.1, 10.0),
    pd_worker=PoolProfile({"decodes": 0.1}, 0.1, 10.0),
    optional_pools={pool.kind: COSTS for pool in OPTIONAL_POOLS},
)


WITH_WORDS = ("encode_worker", "pd_worker", "align_encode_worker", "align_worker")


def plan(*kinds: str, budget: float | None = None, **settings: object) -> Plan:
    configured = PlannerSettings.model_validate(settings)
    pools = [
        pool_plan(
            *(configured, POOLS[kind].limits_of(configured), kind),
            start_seconds=60,
            response_limit=0.1,
            annotation=POOLS[kind].annotation,
        )
        for kind in kinds or POOLS
    ]
    return Plan(pools, budget)


class Pool:
    """The align pool under a plan: decided replicas are ready at the next step."""

    def __init__(self, replicas: int = 0, **settings: object) -> None:
        self.plan = plan("align_worker", **settings)
        self.replicas = replicas
        self.at = 0.0

    def step(
        self, load: float, *, asked: bool = True, service: ServiceObservation = QUIET
    ) -> Decision:
        self.at += STEP
        count = self.replicas
        seen = PoolObservation(self.at, count, count, load, 0.01, asked)
        decision = self.plan.decide({"align_worker": seen}, service)["align_worker"]
        self.replicas = decision.replicas
        return decision

    def idle(self, steps: int) -> list[int]:
        return [self.step(0.0, asked=False).replicas for _ in range(steps)]


def test_a_pool_that_nobody_asks_for_stays_empty() -> None:
    assert Pool().idle(5) == [0] * 5


def test_the_first_who_asks_starts_a_worker_before_anything_was_said() -> None:
    decision = Pool().step(0.0)
    assert (decision.was, decision.replicas, decision.why) == (0, 1, "asked")


def test_an_empty_pool_begins_with_what_is_asked_of_it_within_its_bounds() -> None:
    assert Pool().step(2.4).replicas == 3
    assert Pool(align={"maximum": 2}).step(9.0).replicas == 2


def test_a_pool_is_emptied_when_nobody_asks_any_more_whatever_was_forecast() -> None:
    pool = Pool()
    for _ in range(40):
        pool.step(2.5)
    assert pool.replicas >= 3
    emptied = pool.idle(6)
    assert emptied[-1] == 0
    # A client that arrives right afterwards need not wait for the cool-down.
    assert pool.step(0.0).why == "asked"


def test_a_worker_stays_while_somebody_asks_and_says_nothing() -> None:
    pool = Pool()
    assert {pool.step(0.0).replicas for _ in range(20)} == {1}


def test_clients_refused_for_want_of_text_do_not_make_it_grow() -> None:
    pool = Pool(1)
    crowd = ServiceObservation(active=1, speaking=1, waiting=50.0)
    assert {pool.step(0.5, service=crowd).replicas for _ in range(5)} == {1}


LOADS = st.lists(st.floats(0.0, 30.0), min_size=30, max_size=60)


@hypothesis(max_examples=20)
@given(LOADS, st.randoms(use_true_random=False))
def test_pools_of_text_are_sized_as_if_there_were_no_others(loads: list[float], dice: Any) -> None:
    """This must hold for any demand for the others and any lateness of them."""
    alone, together = plan("encode_worker", "pd_worker"), plan()
    sizes: dict[str, int] = dict.fromkeys(("encode_worker", "pd_worker"), 1)
    for step, load in enumerate(loads):
        at = step * STEP
        text = {
            kind: PoolObservation(at, count, count, load * share, 0.01)
            for (kind, count), share in zip(sizes.items(), (0.3, 1.0), strict=True)
        }
        optional = {
            pool.kind: PoolObservation(at, 2, dice.choice([0, 2]), dice.uniform(0, 9), 9.0)
            for pool in OPTIONAL_POOLS
        }
        first = alone.decide(text, QUIET)
        both = together.decide({**optional, **text}, QUIET)
        assert {kind: both[kind] for kind in text} == first
        sizes = {kind: decision.replicas for kind, decision in first.items()}
    for kind in sizes:
        assert alone.tolerated(kind) == together.tolerated(kind)


@pytest.mark.parametrize(("budget", "given"), [(4.0, (1, 3, 0, 0)), (6.0, (1, 3, 1, 1))])
def test_of_a_budget_text_has_its_part_first(budget: float, given: tuple[int, ...]) -> None:
    made = plan(*WITH_WORDS, budget=budget)
    seen = {
        kind: PoolObservation(0.0, 1, 1, load, 0.01)
        for kind, load in zip(WITH_WORDS, (0.9, 2.9, 1.9, 1.9), strict=True)
    }
    decisions = made.decide(seen, QUIET)
    assert tuple(decisions[kind].replicas for kind in WITH_WORDS) == given


# ── demand ──────────────────────────────────────────────────────────────────


def test_a_meter_knows_who_asks_and_for_how_much_speech() -> None:
    clock = Clock(1000.0)
    meter = DemandMeter(clock)
    assert meter.take() == {}
    with meter.session("words"):
        meter.speech("words", 3.0)
        clock.now += 2.0
        assert meter.take() == {"words": DemandReport(1, 1.5)}
        clock.now += 2.0
        assert meter.take() == {"words": DemandReport(1, 0.0)}
    assert meter.take().get("words", DemandReport(0, 0.0)) == DemandReport(0, 0.0)


def processor(instance: int, sessions: int, speech_seconds: float) -> ProcessorLoad:
    asked = {"words": DemandReport(sessions, speech_seconds)}
    return ProcessorLoad(instance, 2.0, sessions, 0, 0.0, 0.1, asked=asked)


def test_demand_is_what_all_processors_were_asked_in_the_last_step() -> None:
    clock = Clock(1000.0)
    board = LoadBoard(PROFILE, 4.0, clock)
    for seconds in (40.0, 0.0, 10.0):  # the first one is too old
        clock.now += 3.0
        board.processor(processor(1, 1, seconds))
    board.processor(processor(2, 1, 7.0))
    seen = board.pool("align_worker", 0)
    assert seen.load == pytest.approx(0.1 * (5.0 + 7.0))
    assert (seen.replicas, seen.ready, seen.in_demand) == (0, 0, True)
    assert board.service().active == 2


def test_a_pool_counts_as_asked_for_until_it_was_idle_for_long() -> None:
    clock = Clock(1000.0)
    board = LoadBoard(PROFILE, 4.0, clock, idle_seconds=600.0)
    clock.now += 599.0
    board.processor(processor(1, 1, 0.0))
    board.processor(processor(1, 0, 0.0))
    clock.now += 600.0
    assert board.in_demand("align_worker") and board.in_demand("align_encode_worker")
    clock.now += 1.0
    assert not board.in_demand("align_worker")
    assert board.in_demand("pd_worker")  # for any load


# ── the planner's service ───────────────────────────────────────────────────


class Pools:
    """A connector; `acts` has the meaning of the launcher's connector."""

    acts = True

    def __init__(self, **replicas: int) -> None:
        self.now: dict[str, int] = replicas

    async def replicas(self) -> dict[str, int]:
        return dict(self.now)

    async def scale(self, kind: str, replicas: int) -> None:
        self.now[kind] = replicas


def service(board: LoadBoard, connector: Pools, *, leads: bool = True) -> PlannerService:
    metrics = SimpleNamespace(decided=lambda *_: None)
    parts = (plan(), board, connector, SimpleNamespace(held=leads), metrics)
    return PlannerService(*(cast(Any, part) for part in parts), STEP, lambda: 1_000.0)


def worker(kind: str, instance: int) -> WorkerLoad:
    return WorkerLoad(cast(Any, kind), instance, 2.0, {}, 0.0, 1.0, 0.0, 0.01, 0.0, 0.0, 16)


async def test_an_empty_pool_is_started_between_two_steps() -> None:
    clock, pools = Clock(1000.0), Pools(align_worker=0, pd_worker=1)
    board = LoadBoard(PROFILE, STEP, clock, idle_seconds=10.0)
    clock.now += 60.0
    planner = service(board, pools)
    await planner._step()
    await planner._wake()
    assert pools.now == {"align_worker": 0, "pd_worker": 1}
    assert planner.starting(2.0).kinds == ("align_worker",)
    board.processor(processor(1, 1, 0.0))
    await planner._wake()
    assert pools.now == {"align_worker": 1, "pd_worker": 1}
    await planner._wake()
    assert planner.starting(2.0).kinds == ("align_worker",)
    board.worker(worker("align_worker", 7))
    assert planner.starting(2.0) == StartingPools(2.0, ())


async def test_a_planner_that_does_not_lead_starts_nothing() -> None:
    board, pools = LoadBoard(PROFILE, STEP), Pools(align_worker=0)
    planner = service(board, pools, leads=False)
    await planner._step()
    await planner._wake()
    assert pools.now == {"align_worker": 0}


async def test_a_pool_without_a_worker_is_sized_by_what_is_asked_of_it() -> None:
    board, pools = LoadBoard(PROFILE, STEP), Pools(align_worker=0, pd_worker=0)
    board.processor(processor(1, 3, 24.0))
    await service(board, pools)._step()
    assert pools.now == {"align_worker": 3, "pd_worker": 0}  # the other pool is unobserved


# ── settings and profile ────────────────────────────────────────────────────


def test_what_has_no_checkpoint_or_no_profile_is_not_sized(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    settings = PlannerSettings(align_model=tmp_path)
    text = ["encode_worker", "pd_worker"]
    assert [pool.kind for pool in sized(PlannerSettings(), PROFILE)] == text
    assert [pool.kind for pool in sized(settings, PROFILE)] == list(WITH_WORDS)
    own = PlannerSettings(align_model=tmp_path, model=tmp_path)
    assert [pool.kind for pool in sized(own, PROFILE)] == [*text, "align_worker"]
    bare = CapacityProfile("c", "m", "d", PROFILE.encode_worker, PROFILE.pd_worker)
    with caplog.at_level(logging.WARNING):
        assert [pool.kind for pool in sized(settings, bare)] == text
    assert "AlignWorker keeps its size" in caplog.text
    assert "Common.align_model" in caplog.text


@pytest.mark.parametrize(
    ("optional_pools", "said"),
    [
        ({"aline_worker": COSTS}, "unknown optional pool 'aline_worker'; known: align_enc"),
        ({"align_worker": PoolProfile({"tokens": 1.0}, 0.1, 1.0)}, "no unit of work 'tokens'"),
    ],
)
def test_a_profile_of_no_pool_or_no_work_is_refused(
    tmp_path: Path, optional_pools: dict[str, PoolProfile], said: str
) -> None:
    file = tmp_path / "profile.json"
    text = PROFILE.encode_worker, PROFILE.pd_worker
    CapacityProfile("c", "m", "d", *text, optional_pools=optional_pools).write(file)
    with pytest.raises(SettingsError, match=said):
        read_profile(file)


# ── in a processor ──────────────────────────────────────────────────────────


def test_what_a_planner_said_long_ago_does_not_count() -> None:
    clock = Clock(1000.0)
    starting = Starting(clock)
    assert "align_worker" not in starting
    starting.update(StartingPools(2.0, ("align_worker",)))
    assert "align_worker" in starting and "align_encode_worker" not in starting
    clock.now += 6.5
    assert "align_worker" not in starting


async def test_an_adapter_of_words_that_cannot_be_read_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from auricle.planner.kubernetes import KubernetesConnector

    class Api:
        async def replicas(self, adapter: str) -> int:
            if "align" in adapter:
                raise WorkerUnavailable(f"scaling adapter {adapter}: 404")
            return 2

    connector = KubernetesConnector(cast(Any, Api()), "auricle", [POOLS[k] for k in WITH_WORDS])
    assert await connector.replicas() == {"encode_worker": 2, "pd_worker": 2}
    assert "AlignWorker is not sized: scaling adapter auricle-alignworker: 404" in caplog.text


def test_the_metrics_of_one_pool_are_told_from_those_of_another() -> None:
    registry = Registry(pool="align_encode_worker")
    LoadGauges("align_encode_worker", registry.registry).show(worker("align_encode_worker", 1))
    (line,) = re.findall(r"^auricle_encode_worker_busy_share.*$", registry.text(), re.MULTILINE)
    assert line == 'auricle_encode_worker_busy_share{pool="align_encode_worker"} 0.0'
