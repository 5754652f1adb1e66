"""How busy a worker is and when it may stop: told alike by the workers of every pool."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from auricle.common_settings import CommonSettings
from auricle.load.reporter import LoadReporter, ReportedState
from auricle.load.reports import LOAD_TOPIC, PoolKind
from auricle.load.work_meter import WorkMeter
from auricle.process.draining import Drain
from auricle.runtime.process import Runtime

# A drain lasts at least so many reports, so that every caller has heard of it.
_REPORTS_UNTIL_TOLD = 2


def report_load(
    runtime: Runtime,
    settings: CommonSettings,
    kind: PoolKind,
    meter: WorkMeter,
    registry: CollectorRegistry,
    *,
    slots: int,
    held: Callable[[], int] | None = None,
    kv_usage: Callable[[], float] = lambda: 0.0,
    step_seconds: Callable[[], float] = lambda: 0.0,
) -> tuple[LoadReporter, Drain]:
    """Publish the load of a worker, which serves `generate` of the component `kind`.

    Its drain waits for what is `held`: without it, for the requests that `meter` has under way. The
    rest is as in `ReportedState`.
    """
    drain = Drain(
        held or (lambda: meter.in_flight),
        told_seconds=_REPORTS_UNTIL_TOLD * settings.load_report_seconds,
        deadline=settings.drain_seconds,
    )
    state = ReportedState(
        kind=kind,
        instance=runtime.instance(kind, "generate"),
        slots_total=slots,
        kv_usage=kv_usage,
        step_seconds=step_seconds,
    )
    load = LoadReporter(meter, state, drain, registry)
    runtime.publish(kind, LOAD_TOPIC, load.report, settings.load_report_seconds)
    return load, drain
