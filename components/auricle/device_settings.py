"""Settings of what PD processes take of a device, alone or together; part of section `PdWorker`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel, Field

# They load one after the other, and the launcher gives all of them 300 s for it.
_MAX_PROCESSES = 4


class DeviceSettings(BaseModel):
    """A device's memory, who shares it, and the KV cache in it."""

    gpu_memory_share: float = Field(
        0.85, gt=0, le=1, description="of a GPU, for vLLM in all PD processes on it together"
    )
    processes_per_device: int = Field(
        1, ge=1, le=_MAX_PROCESSES, description="PD processes that share a device, in equal parts"
    )
    kv_cache_gib: int = Field(1, ge=1, description="size of a process's KV cache on a CPU")
    kv_blocks: int | None = Field(None, ge=8, description="overrides the KV cache's size")
    limit_reuse: bool = Field(
        True, description="cache KV of finished windows only; no decode reuses the rest"
    )
    enforce_eager: bool = Field(True, description="without CUDA graphs")

    @property
    def process_memory_share(self) -> float:
        """The share of a GPU's memory that one process may have."""
        return self.gpu_memory_share / self.processes_per_device


def within_devices(replicas: int, gpus: Sequence[int], processes_per_device: int) -> None:
    """Raise ValueError if a GPU gets more processes than are to share it.

    Replicas take the indices `gpus` in turn; without any, the settings do not say who is where.
    """
    placed = Counter(gpus[number % len(gpus)] for number in range(replicas)) if gpus else Counter()
    for gpu, count in placed.items():
        if count > processes_per_device:
            raise ValueError(
                f"processes_per_device is {processes_per_device}, but replicas {replicas} on "
                f"gpus {list(gpus)} are {count} processes on GPU {gpu}; raise "
                f"processes_per_device to {count}, so that they share its memory, or name more gpus"
            )
