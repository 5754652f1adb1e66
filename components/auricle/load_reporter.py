"""A worker's load reports, and the same numbers as metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge

from auricle.draining import Drain
from auricle.load_reports import WorkerKind, WorkerLoad
from auricle.work_meter import WorkMeter


@dataclass(frozen=True)
class ReportedState:
    """Of one worker, what its meter does not know."""

    kind: WorkerKind
    instance: int
    slots_total: int
    kv_usage: Callable[[], float] = lambda: 0.0
    step_seconds: Callable[[], float] = lambda: 0.0


class LoadReporter:
    """Makes a report of everything since the last one."""

    def __init__(
        self,
        meter: WorkMeter,
        state: ReportedState,
        drain: Drain,
        registry: CollectorRegistry,
    ) -> None:
        self._meter = meter
        self._state = state
        self._drain = drain
        self._gauges = LoadGauges(state.kind, registry)

    def report(self) -> WorkerLoad:
        """Of the time since the last call."""
        did, state = self._meter.take(), self._state
        load = WorkerLoad(
            kind=state.kind,
            instance=state.instance,
            seconds=did.seconds,
            work=did.work,
            busy=did.busy,
            requests_per_second=did.requests_per_second,
            refused_per_second=did.refused_per_second,
            response_seconds=did.response_seconds,
            queue_wait_seconds=did.queue_wait_seconds,
            slots_used=did.under_way,
            slots_total=state.slots_total,
            kv_usage=state.kv_usage(),
            step_seconds=state.step_seconds(),
            draining=self._drain.started,
            held=self._drain.held,
        )
        self._gauges.show(load)
        return load


class LoadGauges:
    """The last report of this process."""

    def __init__(self, kind: WorkerKind, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"auricle_{kind}_{name}", text, registry=registry)

        self._busy = gauge("busy_share", "of the time, with anything to do")
        self._requests = gauge("requests_per_second", "answered")
        self._refused = gauge("refused_per_second", "requests refused for lack of room")
        self._response = gauge("response_seconds_p95", "from a request to its reply")
        self._wait = gauge("queue_wait_seconds_p95", "from a request to work on it")
        self._slots = gauge("slots_share", "of the slots for requests, in use")
        self._draining = gauge("draining", "1 where this worker takes nothing new")
        self._work = Gauge(
            f"auricle_{kind}_work_per_second", "work done, by unit", ["unit"], registry=registry
        )
        self._vllm: list[tuple[Gauge, str]] = []
        if kind == "pd_worker":
            self._vllm = [
                (gauge("kv_usage", "share of KV blocks in use"), "kv_usage"),
                (gauge("step_seconds", "a forward pass, mean of the last"), "step_seconds"),
            ]

    def show(self, load: WorkerLoad) -> None:
        """As metrics."""
        self._busy.set(load.busy)
        self._requests.set(load.requests_per_second)
        self._refused.set(load.refused_per_second)
        self._response.set(load.response_seconds)
        self._wait.set(load.queue_wait_seconds)
        self._slots.set(load.slots_used / load.slots_total)
        self._draining.set(load.draining)
        for unit, amount in load.work.items():
            self._work.labels(unit).set(amount)
        for gauge, name in self._vllm:
            gauge.set(getattr(load, name))
