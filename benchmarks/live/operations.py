"""Counts operations of Python instead of time, so that results are the same on every machine.

An operation is a line or a call of Python, in any module. The work inside a call of numpy is not
visible, so the bytes that its copying functions move are counted as well.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from auricle.core.aio import TimeSlice

Input = TypeVar("Input")
# Smaller differences are ignored: the fixed cost of a session varies by about these amounts.
_FEWEST_STEPS, _FEWEST_BYTES = 2_000, 1 << 16
_STEP_SECONDS = 2e-7  # about the time of one step
_COPYING = ("concatenate", "stack")


@dataclass
class Operations:
    """Lines and calls of Python, and bytes moved by numpy, since counting began."""

    steps: int = 0
    moved_bytes: int = 0


@contextmanager
def counting() -> Iterator[Operations]:
    """Count the operations of this thread while the block runs. Not reentrant."""
    counted = Operations()

    def traced(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event != "return":
            counted.steps += 1
        return traced

    originals = {name: getattr(np, name) for name in _COPYING}

    def copying(function: Callable[..., Any]) -> Callable[..., Any]:
        def copied(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            counted.moved_bytes += result.nbytes
            return result

        return copied

    before, clock = sys.gettrace(), TimeSlice.clock
    # Turns end after a number of steps instead of a time, so that the count is reproducible.
    TimeSlice.clock = staticmethod(lambda: counted.steps * _STEP_SECONDS)
    for name, function in originals.items():
        setattr(np, name, copying(function))
    sys.settrace(traced)
    try:
        yield counted
    finally:
        sys.settrace(before)
        TimeSlice.clock = clock
        for name, function in originals.items():
            setattr(np, name, function)


@dataclass(frozen=True)
class Growth:
    """How the cost of one kind of input grows. `sizes` are n, 2n, 4n."""

    name: str
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    moved_bytes: tuple[int, ...]

    @property
    def exponent(self) -> float:
        """The exponent of the growth: 1 is linear, 2 quadratic; the larger one of both counts."""
        return max(_exponent(self.steps, _FEWEST_STEPS), _exponent(self.moved_bytes, _FEWEST_BYTES))

    def __str__(self) -> str:
        return f"{self.name}: {self.exponent:.3f} ({self.steps} steps, {self.moved_bytes} bytes)"


def _exponent(counts: Sequence[int], fewest: int) -> float:
    """The exponent of the increments from n to 2n and from 2n to 4n, which exclude fixed costs.

    Differences of up to `fewest` hardly affect it.
    """
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    return math.log2((max(second, 0) + fewest) / (max(first, 0) + fewest))


def growth(
    name: str, prepare: Callable[[int], Input], work: Callable[[Input], object], size: int
) -> Growth:
    """Count the work on the inputs that `prepare` makes for n, 2n and 4n; n is `size`.

    The work is done once before, so that caches are filled; preparing is not counted.
    """
    sizes = (size, 2 * size, 4 * size)
    work(prepare(size))
    counts = []
    for count in sizes:
        prepared = prepare(count)
        with counting() as counted:
            work(prepared)
        counts.append(counted)
    return Growth(name, sizes, tuple(c.steps for c in counts), tuple(c.moved_bytes for c in counts))
