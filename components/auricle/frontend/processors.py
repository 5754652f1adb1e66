"""The processors as a frontend sees them, and which of them a session goes to."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from auricle.errors import WorkerUnavailable
from auricle.load_reports import ProcessorLoad
from auricle.runtime import RemoteEndpoint

_POLL_SECONDS = 0.1
_STALE_INTERVALS = 3.0


class ProcessorLoads:
    """The last report of each processor, and what was sent there since. Pure but for the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, tuple[float, ProcessorLoad]] = {}
        self._since: Counter[int] = Counter()

    def heard(self, load: ProcessorLoad) -> None:
        """A processor's report."""
        now = self._clock()
        self._last[load.instance] = (now, load)
        self._since[load.instance] = 0
        for instance, (at, last) in list(self._last.items()):
            if now - at > _STALE_INTERVALS * max(last.seconds, 1.0):
                del self._last[instance]
                del self._since[instance]

    def staying(self, instances: Iterable[int]) -> list[int]:
        """Those that are not about to go."""
        return [i for i in instances if i not in self._last or not self._last[i][1].draining]

    def chosen(self, instances: Iterable[int]) -> int:
        """The one with the fewest sessions; counted as its next."""
        best = min(instances, key=lambda i: (self._sessions(i), i))
        self._since[best] += 1
        return best

    def _sessions(self, instance: int) -> int:
        known = self._last[instance][1].sessions if instance in self._last else 0
        return known + self._since[instance]


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
