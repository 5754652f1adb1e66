"""The device that is measured, and how long work on it takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

_WARM_UP = 3
_FEWEST = 5


class Device:
    """A torch device by name, `cuda` or `cpu`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.torch = torch.device(name)

    def wait(self) -> None:
        """Wait until the device has finished; a CPU already has."""
        if self.torch.type == "cuda":
            torch.cuda.synchronize()

    def median_seconds(
        self, work: Callable[[], object], seconds: float, *, in_row: int = 1
    ) -> float:
        """Return the seconds of one call, for a thread that waits for its end.

        The thread waits once per `in_row` calls, so that the device is never idle in between and
        the last wait hardly counts.
        """
        for _ in range(_WARM_UP):
            work()
        self.wait()
        took: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(took) < _FEWEST:
            began = time.perf_counter()
            for _ in range(in_row):
                work()
            self.wait()
            took.append((time.perf_counter() - began) / in_row)
        return statistics.median(took)
