"""The processors as a frontend sees them, and which of them a session goes to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from auricle.errors import WorkerUnavailable
from auricle.last_reports import LastReports
from auricle.load_reports import ProcessorLoad
from auricle.runtime import RemoteEndpoint

_POLL_SECONDS = 0.1


class ProcessorLoads(LastReports[ProcessorLoad]):
    """Of all processors; what is sent to one are sessions."""

    def staying(self, instances: Iterable[int]) -> list[int]:
        """Those that are not about to go."""
        return [i for i in instances if not self.draining(i)]

    def chosen(self, instances: Iterable[int]) -> int:
        """The one with the fewest sessions; counted as its next."""
        best = min(instances, key=lambda i: (self._sessions(i), i))
        self.sent(best)
        return best

    def _sessions(self, instance: int) -> int:
        load = self.last(instance)
        return (0 if load is None else load.sessions) + self.since(instance)


@dataclass(frozen=True)
class ProcessorEndpoints:
    """The processor's endpoints; all calls of a session but the first go to one instance."""

    admit: RemoteEndpoint
    open: RemoteEndpoint
    push: RemoteEndpoint
    end: RemoteEndpoint
    loads: ProcessorLoads = field(default_factory=ProcessorLoads)

    async def choose(self, seconds: float, avoid: frozenset[int]) -> int:
        """For a session: the processor with the fewest, of those that stay.

        Prefers those not in `avoid`. Waits up to `seconds` for one, then raises
        WorkerUnavailable.
        """
        deadline = time.monotonic() + seconds
        while True:
            usable = await self.open.usable(max(0.0, deadline - time.monotonic()), avoid)
            if staying := self.loads.staying(usable):
                return self.loads.chosen(staying)
            if time.monotonic() > deadline:
                raise WorkerUnavailable(f"all processors were about to go for {seconds:g} s")
            await asyncio.sleep(_POLL_SECONDS)
