"""The growth of the frontend's and the processor's operations with the input of a live client.

`measure` returns the worst exponent and which input has it: 1 is linear. Operations are counted,
so the figures are the same on every machine (see `benchmarks.live.operations`).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.live import frontend, processor
from benchmarks.live.inputs import INPUTS, Input
from benchmarks.live.operations import Growth, growth
from benchmarks.live.processor import PUSHES, Pushes

BAR = 1.05


@dataclass(frozen=True)
class GrowthResult:
    """The growth of every kind of input; `growth_exponent_worst` is the worst exponent."""

    inputs: tuple[Growth, ...]

    @property
    def worst(self) -> Growth:
        """The input whose operations grow most."""
        return max(self.inputs, key=lambda each: each.exponent)

    @property
    def growth_exponent_worst(self) -> float:
        """The figure, with a bar of 1.05."""
        return self.worst.exponent


def of_input(sent: Input, scale: int = 1) -> Growth:
    """Return the growth of one kind of input of `/v1/audio/stream` or `/v1/realtime`."""
    return growth(
        sent.name, sent.data, lambda data: frontend.serve(sent.path, data), sent.size * scale
    )


def of_pushes(pushes: Pushes, scale: int = 1) -> Growth:
    """Return the growth of one kind of pushes to a processor."""
    return growth(
        pushes.name,
        pushes.make,
        lambda made: processor.serve(made, pushes.chunk_ms),
        pushes.size * scale,
    )


def measure(*, quick: bool = False) -> GrowthResult:
    """Measure every kind of input; a few minutes, and some twenty seconds if `quick`."""
    scale = 1 if quick else 8
    of_clients = tuple(of_input(sent, scale) for sent in INPUTS)
    return GrowthResult((*of_clients, *(of_pushes(pushes, scale) for pushes in PUSHES)))


if __name__ == "__main__":
    result = measure()
    print(*result.inputs, f"worst: {result.worst}", sep="\n")
