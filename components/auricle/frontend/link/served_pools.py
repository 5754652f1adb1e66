"""Whether the pools that the settings promise have workers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from auricle.core.errors import AuricleError, PoolMissing
from auricle.load.pools import SizedPool

_LOOK_SECONDS = 1.0
# A worker that restarts is soon back, and a session that begins meanwhile waits for it. Looks are
# counted, not seconds: a frontend that was suspended has not looked.
PATIENCE = 10


class WorkerList(Protocol):
    """The part of `RemoteEndpoint` that is used here."""

    async def listed(self) -> list[int]: ...

    def known(self) -> list[int]: ...


class ServedPools:
    """Follows in discovery which of these pools have a worker; used on one event loop.

    A pool is missing if it has had no worker for ten seconds, or none since this frontend started.
    Where a planner runs, an optional pool is never missing: the planner empties it without demand,
    and starts it for the first session that needs it.
    """

    def __init__(
        self, pools: Mapping[SizedPool, WorkerList] | None = None, planner: WorkerList | None = None
    ) -> None:
        """Without `pools` none is ever missing."""
        self._pools = dict(pools or {})
        self._planner = planner
        self._looks_without = dict.fromkeys(self._pools, PATIENCE)
        self._without_planner = PATIENCE
        self._seen: set[SizedPool] = set()

    async def follow(self) -> None:
        """Look once a second; the caller cancels this."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look once. Raises nothing; if discovery does not answer, its last answer holds."""
        planner = [] if self._planner is None else [self._planner]
        await asyncio.gather(*map(_connected, (*self._pools.values(), *planner)))
        there = any(one.known() for one in planner)
        self._without_planner = 0 if there else self._without_planner + 1
        for pool, workers in self._pools.items():
            if workers.known():
                self._seen.add(pool)
                self._looks_without[pool] = 0
            else:
                self._looks_without[pool] += 1

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of all promised pools."""
        return tuple(pool.kind for pool in self._pools)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the missing pools."""
        return tuple(pool.kind for pool in self._missing())

    @property
    def awaited(self) -> tuple[str, ...]:
        """The missing pools without which no client should be sent here.

        Every promised pool, until it was there once; then only the pools that all sessions need: a
        frontend whose translator is lost still has text for everybody else.
        """
        return tuple(
            pool.kind for pool in self._missing() if not pool.annotation or pool not in self._seen
        )

    def check(self, annotation: str = "") -> None:
        """Raise PoolMissing, naming them, if pools that this annotation needs are missing.

        Without `annotation` these are the pools that all sessions need.
        """
        gone = [pool.kind for pool in self._missing() if pool.annotation == annotation]
        if gone:
            needs = f", which {annotation} need" if annotation else ""
            raise PoolMissing(
                f"no {' and no '.join(gone)} of this server is running{needs}; try again", gone
            )

    def _missing(self) -> list[SizedPool]:
        planned = self._without_planner < PATIENCE
        return [
            pool
            for pool, looks in self._looks_without.items()
            if looks >= PATIENCE
            and not self._pools[pool].known()  # perhaps since the last look
            and not (pool.annotation and planned)
        ]


async def _connected(component: WorkerList) -> None:
    """Connect to discovery, the first time."""
    with suppress(AuricleError):
        await component.listed()
