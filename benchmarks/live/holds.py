"""The longest time for which one live client holds the frontend's event loop.

The frontend's code runs in this process, with the real model of voice activity and a made-up
processor, on asyncio's own loop, whose callbacks can be timed. A time is the CPU time of the loop's
thread, so that a callback which the system interrupts does not look longer; the time on the clock
is given, too, and has a meaning on a quiet machine only.
"""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import dataclass

from auricle.core.aio import cancelled
from auricle.frontend.audio.voice_activity import VoiceDetector
from benchmarks.live.callbacks import watching
from benchmarks.live.frontend import serving
from benchmarks.live.inputs import INPUTS, Input

BAR_MS = 5.0
_SCALE = 16  # times the size of the unit test's inputs
_REPEATS = 3


@dataclass(frozen=True)
class Hold:
    """The longest callback of one kind of input, and the function that it ran.

    `longest_ms` is CPU time, `clock_ms` the longest on the clock, which may be of another callback.
    """

    input: str
    longest_ms: float
    clock_ms: float
    step: str

    def __str__(self) -> str:
        return (
            f"{self.input}: {self.longest_ms:.2f} ms ({self.clock_ms:.2f} on the clock) "
            f"in {self.step}"
        )


@dataclass(frozen=True)
class HoldsResult:
    """The longest hold of every kind of input; `longest_hold_ms` is the longest one."""

    inputs: tuple[Hold, ...]

    @property
    def worst(self) -> Hold:
        """The input that holds the loop longest."""
        return max(self.inputs, key=lambda each: each.longest_ms)

    @property
    def longest_hold_ms(self) -> float:
        """The figure, with a bar of 5 ms."""
        return self.worst.longest_ms


def of_input(sent: Input, *, scale: int = _SCALE, repeats: int = _REPEATS) -> Hold:
    """Return the longest hold of one kind of input: of each run the maximum, of these the least."""
    data = sent.data(sent.size * scale)
    holds = [_once(sent, data) for _ in range(repeats)]
    return min(holds, key=lambda each: each.longest_ms)


def measure(*, quick: bool = False) -> HoldsResult:
    """Measure every kind of input; a few minutes, and half a minute if `quick`."""
    scale, repeats = (2, 1) if quick else (_SCALE, _REPEATS)
    return HoldsResult(tuple(of_input(sent, scale=scale, repeats=repeats) for sent in INPUTS))


def _once(sent: Input, data: bytes) -> Hold:
    gc.collect()
    gc.disable()  # a collection of garbage is not a client's turn
    try:
        with asyncio.Runner() as runner:
            return runner.run(_served(sent, data))
    finally:
        gc.enable()


async def _served(sent: Input, data: bytes) -> Hold:
    detector = VoiceDetector()
    await detector.load()
    running = asyncio.create_task(detector.run())
    try:
        with watching(time.perf_counter) as clock, watching(time.thread_time) as longest:
            await serving(sent.path, data, detector)
    finally:
        await cancelled([running])
    return Hold(sent.name, 1_000 * longest.amount, 1_000 * clock.amount, longest.step)


if __name__ == "__main__":
    result = measure()
    print(*result.inputs, f"worst: {result.worst}", sep="\n")
