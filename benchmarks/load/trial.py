"""One trial: a number of concurrent sessions for a given time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.load.metrics import Slo, figures, late_share
from benchmarks.load.plan import Plans, SessionPlan
from benchmarks.load.protocols import RunSession, Target
from benchmarks.load.record import Failed, Record, Refused

# If more packets are late, the offered load was not the intended one.
_LATE_SHARE = 0.01
_GRACE_SECONDS = 5.0
_PLANS_AHEAD = 8


@dataclass(frozen=True)
class Load:
    """`sessions` at a time for `seconds`, each followed by another one.

    Sessions begin spread over one mean session's length; those that ended, or should
    have, between then and the end count. `worst_wer` is the largest word error rate of all
    sessions together with which the load counts as carried; None where words mean nothing.
    """

    sessions: int
    seconds: float
    packet_ms: int = 100
    slo: Slo = field(default_factory=Slo)
    worst_wer: float | None = None


@dataclass
class Trial:
    """The result of a load; `records` are the sessions that count, of all `offered`."""

    load: Load
    records: list[Record] = field(default_factory=list)
    offered: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    scored_seconds: float = 0.0  # of them, those after the ramp
    open_seconds: float = 0.0  # of all sessions, together

    @property
    def lateness(self) -> str:
        """Return why packets were late; empty if they were sent in time."""
        late = late_share(self.offered or self.records)
        return f"{late:.1%} of packets left late" if late > _LATE_SHARE else ""

    @property
    def invalid(self) -> str:
        """Return why the figures are invalid; empty if they are valid."""
        if not self.records:
            return f"no session ended within {self.load.seconds:g} s"
        return self.lateness

    @property
    def valid(self) -> bool:
        """Whether the load was valid."""
        return not self.invalid

    @property
    def ended(self) -> list[Record]:
        """Return the sessions that ended, or were refused, at any time."""
        return [r for r in self.offered if r.outcome != "unfinished"]

    @property
    def slo_share(self) -> float:
        """Return the share of admitted sessions within the SLO."""
        tried = [r for r in self.records if r.outcome != "refused"]
        return sum(self.load.slo.kept(r) for r in tried) / len(tried) if tried else 0.0

    def figures(self) -> dict[str, float]:
        """Return the figures of METRICS.md; `valid` is 1, or 0 if the others are invalid."""
        return {"valid": float(self.valid)} | figures(self.records, self.load.slo)


@contextlib.contextmanager
def before_others() -> Iterator[None]:
    """Raise the generator's priority above the server's, if that is permitted."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


async def run_trial(load: Load, planner: Plans, session: RunSession, target: Target) -> Trial:
    """Offer the load; sessions in progress at its end are cancelled."""
    with before_others():
        return await _run_trial(load, planner, session, target)


async def _run_trial(load: Load, planner: Plans, session: RunSession, target: Target) -> Trial:
    trial = Trial(load)
    plans: asyncio.Queue[SessionPlan] = asyncio.Queue(_PLANS_AHEAD + load.sessions)
    for _ in range(load.sessions + _PLANS_AHEAD):
        plans.put_nowait(planner.next())
    maker = asyncio.create_task(_make_plans(planner, plans))
    began = time.monotonic()
    ramp = min(planner.mean_seconds, load.seconds / 3)
    slots = [
        asyncio.create_task(_slot(trial, plans, session, target, began + ramp * i / load.sessions))
        for i in range(load.sessions)
    ]
    try:
        await asyncio.sleep(load.seconds)
    finally:
        for task in (maker, *slots):
            task.cancel()
        results = await asyncio.gather(maker, *slots, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    now = time.monotonic()
    trial.seconds = now - began
    trial.open_seconds = sum((r.ended or now) - r.began for r in trial.offered)
    trial.scored_seconds = now - began - ramp
    _fail_overdue(trial.offered)
    trial.records = [r for r in trial.ended if r.ended >= began + ramp]
    return trial


def _fail_overdue(records: Iterable[Record]) -> None:
    """Sessions that should have ended have failed."""
    now = time.monotonic()
    for record in records:
        waited = now - record.stopped_at if record.stopped_at else 0.0
        if record.outcome == "unfinished" and waited > _GRACE_SECONDS:
            record.outcome, record.reason, record.ended = "failed", "no final text", now


async def _make_plans(planner: Plans, plans: asyncio.Queue[SessionPlan]) -> None:
    """Make plans in a thread, so that synthesis does not delay packets."""
    while True:
        plan = await asyncio.to_thread(planner.next)
        await plans.put(plan)


async def _slot(
    trial: Trial,
    plans: asyncio.Queue[SessionPlan],
    session: RunSession,
    target: Target,
    begin: float,
) -> None:
    dice = random.Random(begin)
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    plan: SessionPlan | None = None
    while True:
        # A refused client retries with the same speech, so that none is synthesised in vain.
        plan = plan or await plans.get()
        record = Record(plan, trial.load.packet_ms / 1000, time.monotonic())
        trial.offered.append(record)
        try:
            await session(target, record)
            record.outcome = "done"
        except Refused as error:
            record.outcome, record.reason = "refused", str(error)
            record.retry_after = error.retry_after
        except Failed as error:
            record.outcome, record.reason = "failed", str(error)
        record.ended = time.monotonic()
        plan = plan if record.outcome == "refused" else None
        # A refused client retries after Retry-After; other sessions follow after a short pause.
        await asyncio.sleep(record.retry_after or dice.uniform(0.05, 0.5))
