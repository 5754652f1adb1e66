"""What is told beside the text, measured on the real graph: words, confidence, speakers, turns.

    python -m benchmarks.annotations --out FILE [--quick | --smoke] [--only PART] [--aligner PATH]

Without `--aligner`, and if there is no models/demo-aligner, an aligner with random weights takes
its place: what does not depend on the times being right is measured all the same, and parts that do
are left out by name. Figures already in FILE of other parts are kept.
"""

from __future__ import annotations

import importlib
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from auricle_testing.checkpoints.aligners import random_aligner
from benchmarks import results
from benchmarks.annotations.capacity import capacity
from benchmarks.annotations.delays import delays
from benchmarks.annotations.faults import faults
from benchmarks.annotations.graph import Asked
from benchmarks.annotations.words import equality, word_errors
from benchmarks.parts import LeftOut, measure_into
from benchmarks.prepared import ROOT

_TRAINED = ROOT / "models/demo-aligner"


def _own(module: str, function: str) -> Callable[[Asked], dict[str, Any]]:
    """Return a part that needs no aligner, of a module with a graph and data of its own."""

    def part(asked: Asked) -> dict[str, Any]:
        try:
            found = importlib.import_module(f"benchmarks.annotations.{module}")
        except ModuleNotFoundError as error:
            raise LeftOut(f"no module {error.name}") from None
        figures: dict[str, Any] = getattr(found, function)(quick=asked.size != "full")
        return figures

    return part


# Each returns figures by name.
PARTS: Mapping[str, Callable[[Asked], dict[str, Any]]] = {
    "word_errors": word_errors,
    "equality": equality,
    "delays": delays,
    "faults": faults,
    "capacity": capacity,
    "confidence": _own("confidence", "confidence"),
    "turns": _own("turns", "turn_figures"),
    "speakers": _own("diarization", "speaker_figures"),
}


def main() -> None:
    """See the module."""
    parser = results.parser(__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="may be repeated")
    parser.add_argument("--aligner", type=Path, help="checkpoint; default: models/demo-aligner")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = {name: part for name, part in PARTS.items() if name in (arguments.only or PARTS)}
    with tempfile.TemporaryDirectory() as directory:
        aligner = arguments.aligner or (_TRAINED if _TRAINED.exists() else None)
        path = aligner or random_aligner(Path(directory) / "aligner")
        asked = Asked(path, aligner is not None, size=arguments.scale)
        told = "random weights" if aligner is None else aligner.name
        for name, part in chosen.items():  # what was measured is kept if the next one fails
            measure_into(arguments.out, asked, name, part, {"aligner": told})


if __name__ == "__main__":
    main()
