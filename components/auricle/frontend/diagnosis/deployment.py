"""What a diagnosis asks of other processes; nothing is followed before the first one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from auricle.load.pools import BESIDE
from auricle.runtime import Runtime
from auricle.settings import CommonSettings

COMPONENTS = ("processor", "encode_worker", "pd_worker", "planner")


def beside(settings: CommonSettings) -> tuple[str, ...]:
    """Return the components beside the path that there are by these settings."""
    return tuple(pool.kind for pool in BESIDE if pool.there(settings))


class Asked(Protocol):
    """The part of `RemoteEndpoint` that is used here."""

    async def listed(self) -> list[int]:
        """See `RemoteEndpoint`."""
        ...

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> msgspec.Struct:
        """See `RemoteEndpoint`."""
        ...


@dataclass(frozen=True)
class Deployment:
    """The endpoints to ask: of each component's processes, and of the processors' probes.

    Each connects when it is first used, and stays connected.
    """

    processes: Mapping[str, Asked]
    probe: Asked

    @classmethod
    def of(cls, runtime: Runtime, settings: CommonSettings) -> Deployment:
        """Return the deployment of this process, which may have pools beside the path."""
        components = (*COMPONENTS, *beside(settings))
        return cls(
            {component: runtime.asking(component) for component in components},
            runtime.client("processor", "probe"),
        )
