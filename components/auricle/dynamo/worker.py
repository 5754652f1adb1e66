"""The process of a worker: endpoint, load reports and health checks common to all pools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from auricle.config.common import CommonSettings
from auricle.dynamo.handling import Route, Unary
from auricle.dynamo.process import Runtime
from auricle.load.meters import WorkMeter
from auricle.load.reporter import EngineState, LoadReporter, ReportedState
from auricle.load.reports import LOAD_TOPIC, PoolKind
from auricle.process.draining import Drain
from auricle.process.metrics import Registry
from auricle.protocol.diagnosis import (
    KvRoom,
    Parts,
    RunningModel,
    SlabState,
    TimedRead,
    Transfers,
)

ENDPOINT: Final = "generate"
# A drain lasts for at least this number of load reports, so that all callers receive one.
_REPORTS_OF_DRAIN = 2


@dataclass(frozen=True)
class Part:
    """A part of a worker that runs as long as the process does, such as an engine.

    `run` raises when the part has failed for good, which ends the process. `answers` returns once
    the part has answered, None for one that cannot hang. Logs and health reports call it `name`.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    answers: Callable[[], Awaitable[object]] | None = None


@dataclass(frozen=True, kw_only=True)
class WorkerService:
    """A worker's service: requests of type `request`, at most `slots` of them at a time.

    Its description counts them in `unit`, and has `model`, `slab`, `transfers`, `timed_reads` and
    `kv`, see `Parts`. A drain waits until `held()` is 0; without it, until `meter` has no request
    in progress. vLLM's KV events are relayed from the address `kv_events`, under the name
    `kv_model`.
    """

    pool: PoolKind
    request: type[msgspec.Struct]
    handler: Unary
    meter: WorkMeter
    slots: int
    unit: str
    parts: Sequence[Part]
    model: RunningModel
    slab: Callable[[], SlabState] | None = None
    transfers: Transfers | None = None
    timed_reads: Callable[[], tuple[TimedRead, ...]] = tuple
    kv: KvRoom | None = None
    held: Callable[[], int] | None = None
    engine_state: EngineState = field(default_factory=EngineState)
    kv_events: str = ""
    kv_model: str = ""


async def serve_worker(
    settings: CommonSettings, registry: Registry, service: WorkerService
) -> None:
    """Serve until the process must stop and has drained. Raises as `Runtime.serve` does."""
    runtime = Runtime(settings, ENDPOINT, registry.registry)
    runtime.add_metrics((service.pool, ENDPOINT), registry.text)
    for part in service.parts:
        runtime.tasks.start(part.run(), part.name)
        if part.answers is not None:
            runtime.liveness.part(part.name, part.answers)
    load, drain = _report_load(runtime, settings, registry, service)
    runtime.description.parts = lambda: Parts(
        model=service.model,
        slab=None if service.slab is None else service.slab(),
        transfers=service.transfers,
        timed_reads=service.timed_reads(),
        kv=service.kv,
        load=load.now(service.unit),
    )
    if service.kv_events:
        await runtime.publish_kv(service.pool, ENDPOINT, service.kv_events, service.kv_model)
    route = Route(ENDPOINT, service.request, unary=service.handler)
    await runtime.serve(service.pool, [route], drain=drain)


def _report_load(
    runtime: Runtime, settings: CommonSettings, registry: Registry, service: WorkerService
) -> tuple[LoadReporter, Drain]:
    """Publish a worker's load, and return the reporter and the drain."""
    meter = service.meter
    drain = Drain(
        service.held or (lambda: meter.in_flight),
        notice_seconds=_REPORTS_OF_DRAIN * settings.load_report_seconds,
        deadline=settings.drain_seconds,
    )
    state = ReportedState(
        kind=service.pool,
        instance=runtime.instance(service.pool, ENDPOINT),
        slots_total=service.slots,
        engine=service.engine_state,
    )
    load = LoadReporter(meter, state, drain, registry.registry)
    runtime.publish(service.pool, LOAD_TOPIC, load.report, settings.load_report_seconds)
    return load, drain
