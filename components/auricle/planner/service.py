"""The planner's loop: observe, decide, and scale the pools if this planner is the leader."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from auricle.core.errors import AuricleError
from auricle.load.load_board import LoadBoard
from auricle.load.pools import POOLS
from auricle.load.reports import PoolKind, PoolObservation, StartingPools
from auricle.planner.connectors import Connector
from auricle.planner.leadership import RENEW_SECONDS, Leadership
from auricle.planner.plan import Plan
from auricle.planner.policy import Decision, DecisionHistory
from auricle.process.metrics import ComponentMetrics
from auricle.protocol.control import AskDecisions, Decisions

log = logging.getLogger(__name__)


class PlannerMetrics:
    """Shows each pool's observation and decision, and whether this planner is the leader."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, "planner")
        self._wanted = new.gauge("replicas_wanted", "replicas last decided", "pool")
        self._ready = new.gauge(
            "replicas_ready", "replicas that report load and are not draining", "pool"
        )
        self._load = new.gauge(
            "load", "work done, in workers at the saturation point of the profile", "pool"
        )
        self._forecast = new.gauge(
            "forecast", "forecast demand for when a replica started now is ready", "pool"
        )
        self._knee = new.gauge(
            "knee", "share of the profile's capacity that workers were observed to carry", "pool"
        )
        self._response = new.gauge(
            "response_seconds", "95th percentile of the pool's response time", "pool"
        )
        self._decisions = new.counter("decisions", "decisions, by reason", "pool", "why")
        self.leader = new.gauge("leader", "1 if this planner holds the lease and acts, otherwise 0")

    def decided(
        self, seen: PoolObservation, decision: Decision, forecast: float, knee: float
    ) -> None:
        """Show one step's decision on one pool.

        `forecast` is in workers, `knee` a share of the profile's capacity.
        """
        pool = decision.pool
        self._wanted.labels(pool).set(decision.replicas)
        self._ready.labels(pool).set(seen.ready)
        self._load.labels(pool).set(seen.load)
        self._forecast.labels(pool).set(forecast)
        self._knee.labels(pool).set(knee)
        self._response.labels(pool).set(seen.response)
        self._decisions.labels(pool, decision.why).inc()


class PlannerService:
    """Runs the planner. Followers observe and forecast too, so that each can take over."""

    def __init__(
        self,
        plan: Plan,
        board: LoadBoard,
        connector: Connector,
        leadership: Leadership,
        metrics: PlannerMetrics,
        step_seconds: float,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`wall_clock` gives Unix seconds."""
        self._plan = plan
        self._board = board
        self._connector = connector
        self._leadership = leadership
        self._metrics = metrics
        self._step_seconds = step_seconds
        self._last: dict[str, Decision] = {}
        self._history = DecisionHistory()
        self._wall_clock = wall_clock
        # Pools that were seen empty, and have had no ready worker since.
        self._empty: set[PoolKind] = set()
        self._at_work = asyncio.Lock()  # no two sizes of a pool are decided at a time

    async def decisions(self, _request: AskDecisions) -> Decisions:
        """Return the last decisions for each pool, and whether this planner is the leader."""
        return Decisions(
            lines=tuple(d.line() for d in self._last.values()),
            leads=self._leadership.held,
            past=self._history.past,
            step_seconds=self._step_seconds,
        )

    async def run(self) -> None:
        """Run a step every `step_seconds` until cancelled; the caller owns this task."""
        loop = asyncio.get_running_loop()
        following = loop.time()
        while True:
            following += self._step_seconds
            await asyncio.sleep(following - loop.time())
            try:
                async with self._at_work:
                    await self._step()
            except AuricleError as error:
                # The pools keep their size until the next step.
                log.warning("no decision in this step: %s", error)

    async def wake(self, every_seconds: float) -> None:
        """Start empty pools between two steps as soon as there is demand, until cancelled.

        The caller owns this task.
        """
        while True:
            await asyncio.sleep(every_seconds)
            try:
                async with self._at_work:
                    await self._wake()
            except AuricleError as error:
                log.warning("an empty pool was not started: %s", error)

    def starting(self, seconds: float) -> StartingPools:
        """Return the pools without a worker that are, or are to be, started when asked for.

        `seconds` is the interval between two calls.
        """
        self._empty = {kind for kind in self._empty if not self._board.ready(kind)}
        return StartingPools(seconds, tuple(sorted(self._empty)))

    async def keep_lease(self) -> None:
        """Renew the lease until cancelled; the caller owns this task."""
        while True:
            try:
                await self._leadership.renew()
            except AuricleError as error:
                log.warning("the planner's lease was not renewed: %s", error)
            self._metrics.leader.set(self._leadership.held)
            await asyncio.sleep(RENEW_SECONDS)

    async def _step(self) -> None:
        replicas = await self._connector.replicas()
        self._empty |= {kind for kind, count in replicas.items() if count == 0}
        seen = {kind: self._board.pool(kind, count) for kind, count in replicas.items()}
        # A required pool whose workers do not report cannot be sized. Optional pools are sized by
        # the demand that processors report.
        known: dict[str, PoolObservation] = {
            k: s for k, s in seen.items() if s.ready or POOLS[k].annotation
        }
        decisions = self._plan.decide(known, self._board.service())
        self._show(known, decisions)
        for kind in replicas:
            decision = decisions.get(kind)
            if decision is not None:
                await self._do(kind, decision)

    async def _wake(self) -> None:
        acts = self._connector.acts and self._leadership.held
        if not acts or not any(self._board.in_demand(kind) for kind in self._empty):
            return
        for kind, count in (await self._connector.replicas()).items():
            if count == 0 and self._board.in_demand(kind):
                await self._do(kind, Decision(kind, 0, 1, "asked", "the first since it was empty"))

    async def _do(self, kind: PoolKind, decision: Decision) -> None:
        applied = False
        try:
            if not decision.changes:
                return
            if not self._leadership.held:
                log.info("another planner decides; not applied: %s", decision.line())
                return
            log.info("%s", decision.line())
            await self._connector.scale(kind, decision.replicas)
            applied = self._connector.acts
        finally:
            self._history.add(self._wall_clock(), decision, applied=applied)

    def _show(self, seen: Mapping[str, PoolObservation], decisions: Mapping[str, Decision]) -> None:
        self._last.update(decisions)
        for pool, decision in decisions.items():
            self._metrics.decided(
                seen[pool], decision, self._plan.forecast(pool), self._plan.knee(pool)
            )
            if not decision.changes:
                log.debug("%s", decision.line())
