"""What the clients of one API key may open, together. Without keys there is no such limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auricle.frontend.doors.access.keys import ANYONE
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.seats import Rates, Shares


class KeyLimits:
    """Limits of sessions and recordings of a tenant; 0 is none. Call it on one event loop."""

    def __init__(
        self,
        connections: int = 0,
        per_second: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = Shares(connections, "sessions and recordings")
        self._rates = Rates(per_second, "sessions and recordings", clock)

    @contextmanager
    def one(self, client: Client) -> Iterator[None]:
        """Count a session or recording while the block runs. Raises RateLimited."""
        if client.key is ANYONE:
            yield
            return
        self._rates.spend(client.tenant)
        with self._connections.one(client.tenant):
            yield
