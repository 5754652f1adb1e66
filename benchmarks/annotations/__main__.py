"""Annotations on the real graph: words, their confidence, speakers, turns.

    python -m benchmarks.annotations --out FILE [--quick | --smoke] [--only PART] [--aligner PATH]

Without `--aligner`, and without models/demo-aligner, an aligner with random weights is used; parts
that need correct times are then left out by name. Figures in FILE of other parts are kept.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auricle_testing.checkpoints.aligners import random_aligner
from benchmarks.annotations.capacity import capacity
from benchmarks.annotations.delays import delays
from benchmarks.annotations.faults import faults
from benchmarks.annotations.words import equality, word_errors
from benchmarks.harness import Benchmark, LeftOut, Part, Run, main
from benchmarks.prepared import ROOT

_TRAINED = ROOT / "models/demo-aligner"


def _own(module: str, function: str) -> Part:
    """Return a part without an aligner, of a module with a graph and data of its own."""

    def part(run: Run) -> dict[str, Any]:
        try:
            found = importlib.import_module(f"benchmarks.annotations.{module}")
        except ModuleNotFoundError as error:
            raise LeftOut(f"no module {error.name}") from None
        figures: dict[str, Any] = getattr(found, function)(run)
        return figures

    return part


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--aligner", type=Path, help="checkpoint; default: models/demo-aligner")


@contextmanager
def _with_aligner(run: Run) -> Iterator[None]:
    aligner = run.arguments.aligner or (_TRAINED if _TRAINED.exists() else None)
    run.arguments.trained = aligner is not None
    run.extra["aligner"] = aligner.name if aligner else "random weights"
    with tempfile.TemporaryDirectory() as directory:
        run.arguments.aligner = aligner or random_aligner(Path(directory) / "aligner")
        yield


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "word_errors": word_errors,
        "equality": equality,
        "delays": delays,
        "faults": faults,
        "capacity": capacity,
        "confidence": _own("confidence", "confidence"),
        "turns": _own("turns", "turn_figures"),
        "speakers": _own("diarization", "speaker_figures"),
    },
    arguments=_arguments,
    around=_with_aligner,
    keeps=True,
)

if __name__ == "__main__":
    main(BENCHMARK)
