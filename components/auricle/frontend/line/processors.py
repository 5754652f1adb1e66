"""The endpoints of the processors, and the choice of a processor for a session."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from auricle.errors import WorkerUnavailable
from auricle.load.processor_loads import ProcessorLoads
from auricle.runtime import Pulses, RemoteEndpoint

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ProcessorEndpoints:
    """The endpoints of the processors. All calls of an open session go to one instance."""

    admit: RemoteEndpoint
    withdraw: RemoteEndpoint
    open: RemoteEndpoint
    push: RemoteEndpoint
    end: RemoteEndpoint
    pulses: Pulses
    loads: ProcessorLoads = field(default_factory=ProcessorLoads)

    async def choose(self, seconds: float, avoid: frozenset[int]) -> int:
        """Return the processor with the fewest sessions, of those that are not draining.

        Instances in `avoid` are chosen only if there is no other. Waits up to `seconds` for an
        instance, then raises WorkerUnavailable.
        """
        deadline = time.monotonic() + seconds
        while True:
            usable = await self.open.usable(max(0.0, deadline - time.monotonic()), avoid)
            if staying := self.loads.staying(usable):
                return self.loads.chosen(staying)
            if time.monotonic() > deadline:
                raise WorkerUnavailable(f"all processors were draining for {seconds:g} s")
            await asyncio.sleep(_POLL_SECONDS)
