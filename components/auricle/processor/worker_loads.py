"""What is known of a pool's workers, for placing segments. Pure but for the clock."""

from __future__ import annotations

from collections.abc import Iterable

from auricle.last_reports import LastReports
from auricle.load_reports import WorkerLoad

# Where nothing is known of a worker's size.
_SLOTS = 32


class WorkerLoads(LastReports[WorkerLoad]):
    """Of one pool; what is sent to a worker are segments."""

    def open(self, instances: Iterable[int]) -> list[int]:
        """Those that are not draining; all of them if all are."""
        instances = list(instances)
        return [i for i in instances if not self.draining(i)] or instances

    def pressure(self, instance: int) -> tuple[float, float]:
        """To be compared: how full the worker is (slots or KV, whichever is fuller, with what
        was placed there since it said so), then how long its steps take. A worker that has
        not reported is taken for empty: new ones get segments at once."""
        since, load = self.since(instance), self.last(instance)
        if load is None:
            return since / _SLOTS, 0.0
        # What it refuses it cannot take, whatever its slots say.
        full = 1.0 if load.refused_per_second > 0 else 0.0
        used = max(load.slots_used / load.slots_total, load.kv_usage, full)
        return used + since / load.slots_total, load.step_seconds
