"""What is known of a pool's workers, for placing segments. Pure but for the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from auricle.last_reports import LastReports
from auricle.load_reports import WorkerLoad

# Where nothing is known of a worker's size.
_SLOTS = 32
# So much fuller, as a share of its room, a worker may be than the emptiest and be preferred
# for what it holds. A choice, not measured: room for some decodes more, not for a crowd.
_SLACK = 0.25
_NEARLY_FULL = 0.9


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

    def best(
        self, instances: Iterable[int], placed: Mapping[int, int], held: Mapping[int, int]
    ) -> int:
        """Where a segment goes: among those about as empty as the emptiest, and not nearly
        full, to the one with most of its prompt (`held`, tokens); then to the emptiest, and
        of equals to the one where least is `placed`."""
        loads = {i: (*self.pressure(i), placed.get(i, 0)) for i in instances}
        least = min(loads.values())[0]
        limit = max(least, min(least + _SLACK, _NEARLY_FULL))
        near = [i for i in loads if loads[i][0] <= limit]
        return min(near, key=lambda i: (-held.get(i, 0), loads[i]))
