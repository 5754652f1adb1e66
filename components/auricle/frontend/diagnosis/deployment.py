"""What a diagnosis asks of other processes; nothing is followed before the first one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from auricle.runtime import Runtime
from auricle.settings import CommonSettings

COMPONENTS = ("processor", "encode_worker", "pd_worker", "planner")
ALIGNERS = ("align_encode_worker", "align_worker")  # where there is an aligner
DIARIZERS = ("diarize_worker",)  # where there is a speaker model


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
        aligners = ALIGNERS if settings.align_model else ()
        diarizers = DIARIZERS if settings.speaker_model else ()
        components = (*COMPONENTS, *aligners, *diarizers)
        return cls(
            {component: runtime.asking(component) for component in components},
            runtime.client("processor", "probe"),
        )
