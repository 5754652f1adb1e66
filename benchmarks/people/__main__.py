"""First contact: first words, pages, documents, and voices outside of the training data.

    python -m benchmarks.people --out FILE [--quick | --smoke] [--only GROUP …] [--model PATH]

Groups: `words` (word error rates of models/demo, or of another model, in voices of espeak-ng, of
flite and of a person, whose packages apt-get downloads), `documents` (links and names), `first`
(from `auricle demo` to its first words), `pages` (Chromium and axe-core; needs `make
chromium-env`). Figures in FILE of other groups are kept. Ten minutes on two cores, `--quick` five.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from auricle_testing.chromium.visits import captions, emptied, operations, said_unasked, watched
from auricle_testing.server import serving
from benchmarks.footprint import seconds_to_first_words
from benchmarks.harness import Benchmark, Run, main
from benchmarks.people import reading, voices
from models.training.packages import NoPackages

_SCALES = {"full": voices.FULL, "quick": voices.QUICK, "smoke": voices.SMOKE}


def _words(run: Run) -> dict[str, float]:
    try:
        return voices.figures(_SCALES[run.size], run.arguments.model)
    except NoPackages as error:
        raise SystemExit(f"{error}\nWithout them: --only documents first pages") from None


def _documents(run: Run) -> dict[str, float]:
    found = reading.findings()
    _list(run, found)
    return {name: float(len(all_)) for name, all_ in found.items()}


def _first(run: Run) -> dict[str, float]:
    """Return the median time from the command `auricle demo` to its first words, in seconds."""
    seconds = [seconds_to_first_words() for _ in range(run.of(3, 1))]
    return {"first_word_seconds": statistics.median(seconds)}


def _pages(run: Run) -> dict[str, float]:
    """Measure weights in kB, and findings of axe-core and the console; take screenshots."""
    folder = run.folder / "people-pages"
    with serving() as server:
        page = captions(server, emptied(folder / "page"))
    with tempfile.TemporaryDirectory() as place, serving(*watched(Path(place))) as server:
        ops = operations(server, emptied(folder / "ops"))
    found = {
        "axe_violations": page["violations"] + ops["violations"],
        "console_messages": page["console"] + said_unasked(ops),
    }
    _list(run, found)
    heaviest = max(*page["weights"], *ops["weights"])
    return {"page_weight_kb": heaviest / 1000} | {n: float(len(v)) for n, v in found.items()}


def _list(run: Run, found: dict[str, list[str]]) -> None:
    run.extra.setdefault("found", {}).update(found)
    for name, lines in found.items():
        for line in lines:
            print(f"{name}: {line}")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, default=voices.MODEL, help="of the group `words`")


BENCHMARK = Benchmark(
    description=__doc__,
    parts={"words": _words, "documents": _documents, "first": _first, "pages": _pages},
    arguments=_arguments,
    keeps=True,
)

if __name__ == "__main__":
    main(BENCHMARK)
