"""Makes a worker's load reports and exports the same numbers as metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge

from auricle.load.meters import WorkMeter
from auricle.load.pools import POOLS
from auricle.load.reports import PoolKind, WorkerLoad
from auricle.process.draining import Drain
from auricle.process.metrics import ComponentMetrics
from auricle.protocol import OLDEST_WIRE, WIRE
from auricle.protocol.diagnosis import LoadNow

_FADING = 0.05  # weight of the latest step in the moving average
_OF_VLLM = ("pd_worker", "translate_worker")


@dataclass
class EngineState:
    """`kv_usage` is the share of KV room in use, `step_seconds` a moving average."""

    kv_usage: float = 0.0
    step_seconds: float = 0.0

    def stepped(self, seconds: float) -> None:
        """Add one step's duration to the moving average."""
        known = self.step_seconds or seconds
        self.step_seconds = known + _FADING * (seconds - known)


@dataclass(frozen=True)
class ReportedState:
    """The fields of one worker's report that its meter does not measure."""

    kind: PoolKind
    instance: int
    slots_total: int
    engine: EngineState = field(default_factory=EngineState)


class LoadReporter:
    """Reports one worker's load over the time since its previous report."""

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
        self._busy: float | None = None

    def now(self, unit: str) -> LoadNow:
        """Return the requests in progress, and the busy share of the last report."""
        return LoadNow(unit, self._meter.in_flight, self._state.slots_total, self._busy)

    def report(self) -> WorkerLoad:
        """Return the load since the previous call, and show it as metrics."""
        did, state = self._meter.take(), self._state
        load = WorkerLoad(
            kind=state.kind,
            instance=state.instance,
            seconds=did.seconds,
            work=did.work,
            busy=did.busy,
            requests_per_second=did.requests_per_second,
            refused_per_second=did.refused_per_second,
            failed_per_second=did.failed_per_second,
            response_seconds=did.response_seconds,
            queue_wait_seconds=did.queue_wait_seconds,
            slots_used=did.under_way,
            slots_total=state.slots_total,
            kv_usage=state.engine.kv_usage,
            step_seconds=state.engine.step_seconds,
            draining=self._drain.started,
            held=self._drain.held,
            wires=(OLDEST_WIRE, WIRE),
        )
        self._gauges.show(load)
        self._busy = load.busy
        return load


class LoadGauges:
    """Shows a worker's latest load report as metrics."""

    def __init__(self, kind: PoolKind, registry: CollectorRegistry) -> None:
        new = ComponentMetrics(registry, POOLS[kind].metrics_prefix)
        self._busy = new.gauge("busy_share", "share of the time with at least one request")
        self._requests = new.gauge("requests_per_second", "requests answered")
        self._refused = new.gauge("refused_per_second", "requests refused as overloaded")
        self._failed = new.gauge("failed_per_second", "requests that failed by this worker's fault")
        self._response = new.gauge(
            "response_seconds_p95", "95th percentile from a request's arrival to its reply"
        )
        self._wait = new.gauge(
            "queue_wait_seconds_p95", "95th percentile from a request's arrival to work on it"
        )
        self._slots = new.gauge("slots_share", "share of the request slots in use")
        self._draining = new.gauge("draining", "1 while this worker drains, otherwise 0")
        self._work = new.gauge("work_per_second", "work done, by unit", "unit")
        self._vllm: list[tuple[Gauge, str]] = []
        if kind in _OF_VLLM:
            self._vllm = [
                (new.gauge("kv_usage", "share of KV blocks in use"), "kv_usage"),
                (
                    new.gauge("step_seconds", "mean duration of recent forward passes"),
                    "step_seconds",
                ),
            ]

    def show(self, load: WorkerLoad) -> None:
        """Set the metrics to this report."""
        self._busy.set(load.busy)
        self._requests.set(load.requests_per_second)
        self._refused.set(load.refused_per_second)
        self._failed.set(load.failed_per_second)
        self._response.set(load.response_seconds)
        self._wait.set(load.queue_wait_seconds)
        self._slots.set(load.slots_used / load.slots_total)
        self._draining.set(load.draining)
        for unit, amount in load.work.items():
            self._work.labels(unit).set(amount)
        for gauge, name in self._vllm:
            gauge.set(getattr(load, name))
