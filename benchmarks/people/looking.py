"""What the two pages of a frontend are like in Chromium, and how soon a newcomer sees words."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from auricle_testing.chromium.visits import captions, emptied, operations, said_unasked, watched
from auricle_testing.server import serving
from benchmarks.footprint import seconds_to_first_words


def first_words(starts: int) -> dict[str, float]:
    """Return the median time from the command `auricle demo` to its first words, in seconds."""
    return {
        "first_word_seconds": statistics.median(seconds_to_first_words() for _ in range(starts))
    }


def findings(folder: Path) -> dict[str, Any]:
    """Return weights in kB, and what axe-core and the console said; screenshots go to `folder`."""
    with serving() as server:
        page = captions(server, emptied(folder / "page"))
    with tempfile.TemporaryDirectory() as place, serving(*watched(Path(place))) as server:
        ops = operations(server, emptied(folder / "ops"))
    weights = {"page": max(page["weights"]) / 1000, "ops": max(ops["weights"]) / 1000}
    return {
        "weights_kb": weights,
        "axe_violations": page["violations"] + ops["violations"],
        "console_messages": page["console"] + said_unasked(ops),
    }
