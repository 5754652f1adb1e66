"""Prometheus metrics: one registry per process, names `auricle_<component>_<what>_<unit>`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector

from auricle import __version__

log = logging.getLogger(__name__)


class Registry:
    """Holds the metrics of this process and renders them as Prometheus text.

    They include CPU, memory, descriptors and the version. If two pools have one kind of worker,
    all metrics have the label `pool` with the value `pool`.
    """

    def __init__(self, pool: str = "") -> None:
        self.registry = CollectorRegistry()
        self._exported: Collector = _OfPool(self.registry, pool) if pool else self.registry
        ProcessCollector(registry=self.registry)
        Info("auricle_build", "the version that runs", registry=self.registry).info(
            {"version": __version__}
        )

    def text(self) -> str:
        """Return all metrics in Prometheus' text exposition format."""
        return generate_latest(self._exported).decode()


class _OfPool(Collector):
    """The metrics of a registry, with the label `pool`."""

    def __init__(self, registry: CollectorRegistry, pool: str) -> None:
        self._registry = registry
        self._pool = {"pool": pool}

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s._replace(labels=s.labels | self._pool) for s in metric.samples]
            yield metric


class ComponentMetrics:
    """Creates the metrics of one component: `auricle_<component>_` precedes every name.

    `text` is the metric's help line. A metric with `labels` has one time series for each
    combination of their values. A name that the registry has already raises ValueError.
    """

    def __init__(self, registry: CollectorRegistry, component: str) -> None:
        self._registry = registry
        self._component = component

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Create a counter; Prometheus appends `_total` to its name."""
        return Counter(self._name(name), text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Create a gauge."""
        return Gauge(self._name(name), text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        """Create a histogram; `buckets` are upper bounds in the metric's unit."""
        return Histogram(self._name(name), text, buckets=buckets, registry=self._registry)

    def _name(self, name: str) -> str:
        return f"auricle_{self._component}_{name}"


# How a process reports its status to the launcher: as a line on standard output.

_STATUS_PREFIX = "AURICLE_STATUS "
_ALIVE = "AURICLE_ALIVE"


def report_status(text: str) -> None:
    """Report this process's status to the launcher; without a launcher, log it.

    `ready` means that the process serves.
    """
    if os.environ.get("AURICLE_SUPERVISED"):
        print(f"{_STATUS_PREFIX}{text}", flush=True)
    else:
        log.info("status: %s", text)


def parse_status(line: str) -> str | None:
    """Return the status that a line of a component's output reports; None if it reports none."""
    return line.removeprefix(_STATUS_PREFIX) if line.startswith(_STATUS_PREFIX) else None


def report_alive() -> None:
    """Report to the launcher, if there is one, that this process answers."""
    if os.environ.get("AURICLE_SUPERVISED"):
        print(_ALIVE, flush=True)


def says_alive(line: str) -> bool:
    """Whether a line of a component's output is from `report_alive`."""
    return line == _ALIVE
