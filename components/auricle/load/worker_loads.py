"""The load of a pool's workers, for placing segments. No I/O but the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from auricle.load.last_reports import LastReports
from auricle.load.reports import WorkerLoad

# Request slots assumed for a worker that has not reported.
_SLOTS = 32
# How much fuller than the emptiest, as a share of its capacity, a worker may be and still be
# preferred for its prefix cache. Chosen, not measured: enough for a few decodes more.
_SLACK = 0.25
_NEARLY_FULL = 0.9
_NOTHING_PER_SECOND = 1e-9


class WorkerLoads(LastReports[WorkerLoad]):
    """The latest reports of one pool's workers, and the segments sent to each since."""

    def open(self, instances: Iterable[int]) -> list[int]:
        """Return the instances that are neither silent nor draining.

        Returns draining ones if there are no others, and silent ones last.
        """
        instances = self.answering(instances)
        return [i for i in instances if not self.draining(i)] or instances

    def pressure(self, instance: int) -> tuple[float, float]:
        """Return a sort key: how full the worker is (0 to 1 and above), then its step time.

        The fuller of slots and KV cache counts, plus the share of requests that failed by the
        worker's fault, plus the segments placed since the report. A
        worker that has not reported counts as empty, so that a new one gets segments at once.
        """
        since, load = self.since(instance), self.last(instance)
        if load is None:
            return since / _SLOTS, 0.0
        # A worker that refuses requests is full, whatever its slots say.
        full = 1.0 if load.refused_per_second > 0 else 0.0
        used = max(load.slots_used / load.slots_total, load.kv_usage, full)
        # Failing fast must not look like having room.
        used += load.failed_per_second / max(
            load.failed_per_second + load.requests_per_second, _NOTHING_PER_SECOND
        )
        return used + since / load.slots_total, load.step_seconds

    def best(
        self, instances: Iterable[int], placed: Mapping[int, int], held: Mapping[int, int]
    ) -> int:
        """Choose the worker for a segment.

        Of the workers that are about as empty as the emptiest and not nearly full, it is the
        one whose prefix cache has most of the prompt (`held`, in tokens); then the emptiest;
        then the one with the fewest segments `placed`.
        """
        loads = {i: (*self.pressure(i), placed.get(i, 0)) for i in instances}
        least = min(loads.values())[0]
        limit = max(least, min(least + _SLACK, _NEARLY_FULL))
        near = [i for i in loads if loads[i][0] <= limit]
        return min(near, key=lambda i: (-held.get(i, 0), loads[i]))
