"""The operations page: one document of the processes' answers, shared by all viewers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from auricle.core.errors import RateLimited
from auricle.frontend.ops.documents import (
    ChosenSession,
    DeploymentHealth,
    FrontendState,
    Operations,
    PlannerState,
    PoolState,
    ProcessEntry,
    ProcessorState,
    SessionRow,
    State,
    TextLag,
    WorkerState,
)
from auricle.frontend.ops.gatherer import Snapshot
from auricle.load.reports import is_silent
from auricle.ops.checks import findings
from auricle.ops.finding import NamedProcess, Processes, title
from auricle.protocol.control import Decisions
from auricle.protocol.views import STEPS_KEPT_SECONDS, SeenWorker, View

T = TypeVar("T")
_NEEDED, _NO_POOLS = ("encode_worker", "pd_worker"), ("frontend", "processor", "planner")


def document(
    snapshot: Snapshot, own: FrontendState, *, every_seconds: float, keys: bool
) -> Operations:
    """Return the document, without a chosen session."""
    diagnosis, processes = snapshot.diagnosis, Processes(snapshot.diagnosis)
    loads = _latest(worker for view in snapshot.views.values() for worker in view.workers)
    found = findings(diagnosis)

    def of(component: str, state: Callable[[NamedProcess], T]) -> tuple[T, ...]:
        return tuple(state(one) for one in processes if one.answer.component == component)

    return Operations(
        at=snapshot.at,
        every_seconds=every_seconds,
        namespace=diagnosis.namespace,
        keys=keys,
        health=DeploymentHealth(
            snapshot.diagnosis_age, sum(one.wrong for one in found), tuple(found)
        ),
        frontend=own,
        processors=of("processor", lambda one: _processor(one, snapshot.views)),
        pools=tuple(
            PoolState(pool, f"{title(pool)}s", of(pool, lambda one: _worker(one, loads)))
            for pool in _pools(processes)
        ),
        planners=of("planner", lambda one: _planner(one, snapshot.decisions)),
        sessions=tuple(
            SessionRow(instance, state)
            for instance, view in snapshot.views.items()
            for state in view.sessions
        ),
        sessions_left_out=sum(view.others for view in snapshot.views.values()),
        chosen=None,
    )


def _pools(processes: Processes) -> list[str]:
    """Return the workers' components: first the needed ones, then others that have a process."""
    there = {process.answer.component: None for process in processes}
    return [*_NEEDED, *(one for one in there if one not in (*_NEEDED, *_NO_POOLS))]


def chosen(
    views: Iterable[View], session: str, lags: Iterable[tuple[int, float]]
) -> ChosenSession | None:
    """Return the steps of a session; None if no processor has it.

    `lags` are the positions of its texts in ms, and their lags in seconds.
    """
    kept = (one for view in views for one in view.steps if one.session == session)
    if (found := next(kept, None)) is None:
        return None
    texts = tuple(TextLag(audio_ms / 1000, seconds) for audio_ms, seconds in lags)
    return ChosenSession(session, found.chunks, texts)


def _latest(workers: Iterable[SeenWorker]) -> dict[tuple[str, str], SeenWorker]:
    """Return each worker's youngest report: every processor has received one."""
    found: dict[tuple[str, str], SeenWorker] = {}
    for worker in workers:
        name = worker.component, worker.instance
        if name not in found or worker.age_seconds < found[name].age_seconds:
            found[name] = worker
    return found


def _processor(process: NamedProcess, views: Mapping[str, View]) -> ProcessorState:
    view = views.get(process.answer.instance)
    place = _place(process, silent=view is None)
    if view is None:
        return ProcessorState(place, 0, 0, 0.0, 0, 0.0)
    return ProcessorState(
        place=place,
        sessions=len(view.sessions) + view.others,
        speaking=view.speaking,
        waiting=view.waiting,
        admits=view.limit,
        chunk_seconds=view.chunk_seconds,
    )


def _worker(process: NamedProcess, loads: Mapping[tuple[str, str], SeenWorker]) -> WorkerState:
    load = loads.get((process.answer.component, process.answer.instance))
    description = process.answer.description
    silent = load is not None and is_silent(load.age_seconds, load.every_seconds)
    return WorkerState(
        place=_place(process, silent=silent, draining=load is not None and load.draining),
        load=load,
        slab=None if description is None else description.parts.slab,
        kv=None if description is None else description.parts.kv,
    )


def _planner(process: NamedProcess, decisions: Mapping[str, Decisions]) -> PlannerState:
    decision = decisions.get(process.answer.instance)
    place = _place(process, silent=decision is None)
    if decision is None:
        return PlannerState(place, False, (), (), 0.0)
    return PlannerState(place, decision.leads, decision.lines, decision.past, decision.step_seconds)


def _place(process: NamedProcess, *, silent: bool, draining: bool = False) -> ProcessEntry:
    description = process.answer.description
    state: State = "silent" if silent else "ready"
    if description is None:
        state = "unreachable"
    elif draining or description.draining:
        state = "draining"
    return ProcessEntry(
        name=process.name.partition(" (")[0],
        instance=process.answer.instance,
        state=state,
        host="" if description is None else description.host,
        pid=0 if description is None else description.pid,
        version="" if description is None else description.versions.get("auricle", ""),
    )


EVERY_SECONDS = 2.0
MAX_VIEWERS = 16
_RETRY_SECONDS = 10.0


class Dashboard:
    """One frontend's view of its deployment. Use it on one event loop.

    A request gathers a snapshot, unless the last one is less than 2 s old; concurrent requests
    share it.
    """

    def __init__(
        self,
        gather: Callable[[tuple[str, ...]], Awaitable[Snapshot]],
        own: Callable[[], FrontendState],
        keys: Callable[[], bool],
        lags: Callable[[str], Iterable[tuple[int, float]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keys` returns whether clients need a key; `lags` the lags of a session's texts here."""
        self._gather = gather
        self._own = own
        self._keys = keys
        self._lags = lags
        self._clock = clock
        self._gathering = asyncio.Lock()
        self._last: tuple[float, Snapshot] | None = None
        self._chosen: dict[str, float] = {}  # sessions, and until when their steps are kept
        self._viewers = 0

    @contextmanager
    def viewer(self) -> Iterator[None]:
        """Count a viewer while the block runs. Raises RateLimited beyond 16."""
        if self._viewers >= MAX_VIEWERS:
            raise RateLimited(
                f"{MAX_VIEWERS} pages are open already, the most there may be", _RETRY_SECONDS
            )
        self._viewers += 1
        try:
            yield
        finally:
            self._viewers -= 1

    async def now(self, session: str | None = None) -> Operations:
        """Return the document, with the steps of `session`.

        Raises RateLimited while viewers follow the steps of 16 other sessions.
        """
        if session is not None:
            self._choose(session)
        async with self._gathering:
            if self._last is None or self._clock() - self._last[0] >= EVERY_SECONDS:
                began, names = self._clock(), tuple(self._chosen)
                self._last = (began, await self._gather(names))
            snapshot = self._last[1]
        made = document(snapshot, self._own(), every_seconds=EVERY_SECONDS, keys=self._keys())
        if session is None:
            return made
        # A session that moved has another name at its processor.
        own = session if self._lags(session) else session.rpartition(".")[0] or session
        found = chosen(snapshot.views.values(), session, self._lags(own))
        return msgspec.structs.replace(made, chosen=found)

    def _choose(self, session: str) -> None:
        now = self._clock()
        self._chosen = {name: until for name, until in self._chosen.items() if until > now}
        if session not in self._chosen and len(self._chosen) >= MAX_VIEWERS:
            raise RateLimited(
                f"the steps of {MAX_VIEWERS} other sessions are being looked at", _RETRY_SECONDS
            )
        self._chosen[session] = now + STEPS_KEPT_SECONDS
