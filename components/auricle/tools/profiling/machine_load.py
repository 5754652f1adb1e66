"""The CPU time that other processes take on this machine while a profile is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from auricle.core.errors import AuricleError
from auricle.load.capacity_profile import OtherProcesses

# A worker's capacity is smaller by about as much as others take of the cores.
_NOTABLE_SHARE = 0.1


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds up to the time `at`: of all processes, and of this one with its descendants.

    Time that a hypervisor gives to other machines counts as other processes'.
    """

    at: float
    everyone: float
    own: float


def cpu_times() -> CpuTimes:
    """Read the times; a process that ends meanwhile counts through its parent."""
    machine = psutil.cpu_times()
    # Linux counts the time of guests in `user` and `nice`, too.
    everyone = machine.user + machine.nice + machine.system + machine.irq + machine.softirq
    return CpuTimes(time.monotonic(), everyone + machine.steal, sum(_own()))


def _own() -> Iterator[float]:
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            yield times.user + times.system + times.children_user + times.children_system


def others_between(before: CpuTimes, after: CpuTimes) -> float:
    """Return the cores that other processes used between two readings, on average."""
    used = (after.everyone - before.everyone) - (after.own - before.own)
    return max(0.0, used) / (after.at - before.at)


class MachineLoad:
    """Cores used by other processes since this object was made, or `named_in_errors` began."""

    def __init__(self, read: Callable[[], CpuTimes] = cpu_times) -> None:
        self.cores = os.cpu_count() or 1
        self._read = read
        self._since = read()

    def others(self) -> float:
        """Return the cores that other processes have used on average; time must have passed."""
        return others_between(self._since, self._read())

    def described(self, others: float) -> str:
        return f"other processes use {others:.1f} of {self.cores} cores"

    def is_notable(self, others: float) -> bool:
        return others > _NOTABLE_SHARE * self.cores

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Measure while the block runs; its AuricleError names the load if that is notable."""
        self._since = self._read()
        try:
            yield
        except AuricleError as error:
            others = self.others()
            if not self.is_notable(others):
                raise
            raise AuricleError(f"{error} ({self.described(others)})") from None

    def during(self, before: float) -> OtherProcesses:
        """Return the figures of a profile; `before` was measured before the workers started."""
        return OtherProcesses(self.cores, round(before, 2), round(self.others(), 2))
