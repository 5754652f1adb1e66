"""The instances that do not accept this process's version of the wire."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge

from auricle.process.metrics import ComponentMetrics
from auricle.protocol import WIRE

log = logging.getLogger(__name__)
_MOST = 1024  # remembered; the oldest are forgotten, and found again


def incompatible_gauge(registry: CollectorRegistry) -> Gauge:
    """Return the number of such instances in discovery, by component."""
    return ComponentMetrics(registry, "internal").gauge(
        "incompatible_instances",
        "instances without calls, as they do not accept this process's version of the wire",
        "component",
    )


class Incompatible:
    """Such instances of one component; they get no calls, except about themselves.

    Load reports name them, and so does the refusal of a request that comes before the first report.
    An instance keeps its version as long as it exists. Use it on one event loop.
    """

    def __init__(self, component: str, gauge: Gauge) -> None:
        """`gauge` is the component's."""
        self._component = component
        self._gauge = gauge
        self._instances: dict[int, None] = {}

    def reported(self, instance: int, wires: tuple[int, int]) -> None:
        """Note an instance if its range of versions, `wires`, lacks this process's."""
        oldest, newest = wires
        if not oldest <= WIRE <= newest:
            self.add(instance, f"versions {oldest} to {newest} of the wire are accepted there")

    def add(self, instance: int, why: str) -> None:
        """Note an instance, and log it once."""
        if instance in self._instances:
            return
        self._instances[instance] = None
        if len(self._instances) > _MOST:
            del self._instances[next(iter(self._instances))]
        log.warning(
            "%s %x gets no calls of this process, which sends version %d: %s",
            *(self._component, instance, WIRE, why),
        )

    def without(self, listed: Iterable[int]) -> list[int]:
        """Return the `listed` instances that are not known to be incompatible."""
        listed = list(listed)
        compatible = [instance for instance in listed if instance not in self._instances]
        self._gauge.set(len(listed) - len(compatible))
        return compatible
