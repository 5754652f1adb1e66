"""Makes diagnoses for operators, one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from auricle.errors import RateLimited
from auricle.frontend.diagnosis.census import census
from auricle.frontend.diagnosis.deployment import Deployment, beside
from auricle.frontend.diagnosis.discovery import discovery_state
from auricle.frontend.diagnosis.probing import probes, routes
from auricle.messages.diagnosis import (
    BusState,
    Description,
    Diagnosis,
    DiscoveryState,
    ProcessAnswer,
)
from auricle.settings import CommonSettings

# Every diagnosis has every worker encode or decode a second of audio.
_REST_SECONDS = 2.0
_BUSY_SECONDS = 5.0


class Diagnostician:
    """One frontend's diagnoses. Use it on one event loop."""

    def __init__(
        self,
        settings: CommonSettings,
        deployment: Deployment,
        describe: Callable[[], Description],
        bus: Callable[[], BusState | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`describe` describes this process, and `bus` the transcript bus."""
        self._settings = settings
        self._deployment = deployment
        self._describe = describe
        self._bus = bus
        self._clock = clock
        self._busy = False
        self._rested = float("-inf")  # the time from which the next one may begin

    async def diagnose(self) -> Diagnosis:
        """Ask every process, then probe; takes at most a minute.

        Raises RateLimited while another diagnosis is made, and for 2 s after it.
        """
        if self._busy:
            raise RateLimited("another diagnosis is being made", _BUSY_SECONDS)
        if (rest := self._rested - self._clock()) > 0:
            raise RateLimited("a diagnosis was made just now", rest)
        self._busy = True
        try:
            return await self._diagnose()
        finally:
            self._busy = False
            self._rested = self._clock() + _REST_SECONDS

    async def look(self) -> Diagnosis:
        """Ask every process, but probe none: it costs them next to nothing, and takes 10 s at most.

        Raises nothing.
        """
        at, began = time.time(), self._clock()
        found = await census(self._deployment.processes)
        discovery = DiscoveryState(
            self._settings.discovery, await discovery_state(self._settings), found.unlisted
        )
        own = ProcessAnswer("frontend", "", 0.0, self._describe())
        return Diagnosis(
            namespace=self._settings.namespace,
            at=at,
            seconds=self._clock() - began,
            processes=(own, *found.answers),
            unasked=found.unasked,
            probes=(),
            discovery=discovery,
            bus=self._bus(),
            beside=beside(self._settings),
        )

    async def _diagnose(self) -> Diagnosis:
        found, began = await self.look(), self._clock()
        made = await probes(self._deployment.probe, routes(found.processes))
        seconds = found.seconds + self._clock() - began
        return msgspec.structs.replace(found, probes=made, seconds=seconds)
