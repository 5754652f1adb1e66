"""The load of the processors, for placing sessions. No I/O but the clock."""

from __future__ import annotations

from collections.abc import Iterable

from auricle.load.last_reports import LastReports
from auricle.load.reports import ProcessorLoad


class ProcessorLoads(LastReports[ProcessorLoad]):
    """The latest reports of all processors, and the sessions sent to each since."""

    def staying(self, instances: Iterable[int]) -> list[int]:
        """Return the instances that are not draining; silent ones only if there are no others."""
        return self.answering(i for i in instances if not self.draining(i))

    def chosen(self, instances: Iterable[int]) -> int:
        """Return the instance with the fewest sessions, and count one more for it."""
        best = min(instances, key=lambda i: (self._sessions(i), i))
        self.sent(best)
        return best

    def _sessions(self, instance: int) -> int:
        load = self.last(instance)
        return (0 if load is None else load.sessions) + self.since(instance)
