"""Assigns processes to GPUs. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

# An encode worker feeds about three PD workers: configs/h100x8-0.6b.yaml has 2 and 6.
_GPUS_PER_ENCODER = 4


@dataclass(frozen=True)
class Placement:
    """The GPUs of encode workers and of PD workers, one process each."""

    encode: tuple[int, ...]
    pd: tuple[int, ...]

    def overrides(self) -> list[str]:
        """Return the overrides for `auricle serve`."""
        return [
            f"--{section}.{key}={value}"
            for section, gpus in (("EncodeWorker", self.encode), ("PdWorker", self.pd))
            for key, value in (("replicas", len(gpus)), ("gpus", list(gpus)))
        ]


def placed(gpus: int) -> Placement:
    """Assign one process per GPU; both share a single one. Raises ValueError for none."""
    if gpus < 1:
        raise ValueError(f"{gpus} GPUs: at least one is needed")
    if gpus == 1:
        return Placement((0,), (0,))
    encoders = max(1, gpus // _GPUS_PER_ENCODER)
    return Placement(tuple(range(encoders)), tuple(range(encoders, gpus)))
