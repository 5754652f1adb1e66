"""The task and the results of a part: plain data that processes exchange."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.gpu.scale import FULL, QUICK, Scale


@dataclass(frozen=True)
class Task:
    """The task of a part; `ceilings` are the figures of the part of that name.

    `config` and `gpus` are for the part that starts pools: the file, or empty for the one that
    fits this number of GPUs.
    """

    part: str
    device: str
    quick: bool
    gpus: int = 1
    config: str = ""
    seconds: float | None = None
    ceilings: dict[str, float] = field(default_factory=dict)

    @property
    def scale(self) -> Scale:
        """How much is measured."""
        scale = QUICK if self.quick else FULL
        return scale if self.seconds is None else replace(scale, seconds=self.seconds)

    @property
    def dtype(self) -> str:
        """The data type of encoder, embeddings and decoder."""
        return "bfloat16" if self.on_gpu else "float32"

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU is measured."""
        return self.device == "cuda"


@dataclass
class Found:
    """Figures, and why others could not be measured: they are never 0 instead."""

    figures: dict[str, float] = field(default_factory=dict)
    not_measured: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def put(self, name: str, value: float | None, why_not: str = "") -> None:
        """Store a figure, or why there is none."""
        if value is None:
            self.not_measured[name] = why_not
        else:
            self.figures[name] = float(value)

    @property
    def names(self) -> set[str]:
        """All figures of the part."""
        return self.figures.keys() | self.not_measured.keys()
