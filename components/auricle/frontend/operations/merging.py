"""Makes one document of what the processes answered. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from auricle.findings.finding import Process, Processes, title
from auricle.findings.rules import findings
from auricle.frontend.operations.documents import (
    ChosenSession,
    FrontendState,
    Health,
    Operations,
    Place,
    PlannerState,
    PoolState,
    ProcessorState,
    SessionRow,
    State,
    TextLag,
    WorkerState,
)
from auricle.messages.diagnosis import Diagnosis
from auricle.messages.planning import Decisions
from auricle.messages.views import SeenWorker, View

T = TypeVar("T")
# A worker is silent when its last report is older than so many of its intervals.
_SILENT_INTERVALS = 3.0
_SHORTEST_SECONDS = 1.0
_NEEDED, _NO_POOLS = ("encode_worker", "pd_worker"), ("frontend", "processor", "planner")


@dataclass(frozen=True)
class Gathered:
    """What was answered at `at` (Unix seconds): views and decisions by instance id in hex.

    The diagnosis has no probes; it was made `diagnosis_age` seconds before.
    """

    at: float
    diagnosis: Diagnosis
    diagnosis_age: float
    views: Mapping[str, View]
    decisions: Mapping[str, Decisions]


def document(
    gathered: Gathered, own: FrontendState, *, every_seconds: float, keys: bool
) -> Operations:
    """Return the document, without a chosen session."""
    diagnosis, processes = gathered.diagnosis, Processes(gathered.diagnosis)
    loads = _latest(worker for view in gathered.views.values() for worker in view.workers)
    found = findings(diagnosis)

    def of(component: str, state: Callable[[Process], T]) -> tuple[T, ...]:
        return tuple(state(one) for one in processes if one.answer.component == component)

    return Operations(
        at=gathered.at,
        every_seconds=every_seconds,
        namespace=diagnosis.namespace,
        keys=keys,
        health=Health(gathered.diagnosis_age, sum(one.wrong for one in found), tuple(found)),
        frontend=own,
        processors=of("processor", lambda one: _processor(one, gathered.views)),
        pools=tuple(
            PoolState(pool, f"{title(pool)}s", of(pool, lambda one: _worker(one, loads)))
            for pool in _pools(processes)
        ),
        planners=of("planner", lambda one: _planner(one, gathered.decisions)),
        sessions=tuple(
            SessionRow(instance, state)
            for instance, view in gathered.views.items()
            for state in view.sessions
        ),
        sessions_left_out=sum(view.others for view in gathered.views.values()),
        chosen=None,
    )


def _pools(processes: Processes) -> list[str]:
    """Return the components of workers: those that sessions need, then others that are there."""
    there = {process.answer.component: None for process in processes}
    return [*_NEEDED, *(one for one in there if one not in (*_NEEDED, *_NO_POOLS))]


def chosen(
    views: Iterable[View], session: str, lags: Iterable[tuple[int, float]]
) -> ChosenSession | None:
    """Return the steps of a session; None if no processor has it.

    `lags` are those of its texts: positions in ms, and seconds.
    """
    kept = (one for view in views for one in view.steps if one.session == session)
    if (found := next(kept, None)) is None:
        return None
    told = tuple(TextLag(audio_ms / 1000, seconds) for audio_ms, seconds in lags)
    return ChosenSession(session, found.chunks, told)


def _latest(workers: Iterable[SeenWorker]) -> dict[tuple[str, str], SeenWorker]:
    """Return each worker's youngest report: every processor has heard one."""
    found: dict[tuple[str, str], SeenWorker] = {}
    for worker in workers:
        name = worker.component, worker.instance
        if name not in found or worker.age_seconds < found[name].age_seconds:
            found[name] = worker
    return found


def _processor(process: Process, views: Mapping[str, View]) -> ProcessorState:
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


def _worker(process: Process, loads: Mapping[tuple[str, str], SeenWorker]) -> WorkerState:
    load = loads.get((process.answer.component, process.answer.instance))
    said = process.answer.description
    silent = load is not None and load.age_seconds > _SILENT_INTERVALS * max(
        load.every_seconds, _SHORTEST_SECONDS
    )
    return WorkerState(
        place=_place(process, silent=silent, draining=load is not None and load.draining),
        load=load,
        slab=None if said is None else said.parts.slab,
        kv=None if said is None else said.parts.kv,
    )


def _planner(process: Process, decisions: Mapping[str, Decisions]) -> PlannerState:
    told = decisions.get(process.answer.instance)
    place = _place(process, silent=told is None)
    if told is None:
        return PlannerState(place, False, (), (), 0.0)
    return PlannerState(place, told.leads, told.lines, told.past, told.step_seconds)


def _place(process: Process, *, silent: bool, draining: bool = False) -> Place:
    said = process.answer.description
    state: State = "silent" if silent else "ready"
    if said is None:
        state = "unreachable"
    elif draining or said.draining:
        state = "draining"
    return Place(
        name=process.name.partition(" (")[0],
        instance=process.answer.instance,
        state=state,
        host="" if said is None else said.host,
        pid=0 if said is None else said.pid,
        version="" if said is None else said.versions.get("auricle", ""),
    )
