"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.ways.report build/ways.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated
from benchmarks.generated import number, table
from benchmarks.ways.ways import WAYS

# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "wer_ways_spread": ("word error rate of the worst way − that of the best, points", "≤ 0.3"),
    "wer_ways_spread_low": ("its paired bootstrap 95% interval, from", ""),
    "wer_ways_spread_high": ("to", ""),
    "ways_recordings": ("recordings, half of them word lists", ""),
    "ways_minutes": ("minutes of audio, by each way", ""),
    "ways_words": ("words said", ""),
    "ways_left_out": ("recordings left out for lack of time", "0"),
}
_BY_WAY = {
    "wer": "word errors, points",
    "same_text": "texts that are the command line's",
    "invented_words": "words where nobody speaks",
    "decodes_per_grid_point": "decodes per grid point",
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    measured = result["figures"]
    rest = ", definitions in [METRICS.md](METRICS.md#ways-in)"
    yield from generated.heading("Ways in", result["environment"], command, rest)
    yield from generated.figures(FIGURES, measured)
    rows = [[way.replace("_", " "), *_row(way, measured)] for way in WAYS]
    yield from table(["way", *_BY_WAY.values()], rows)


def _row(way: str, measured: dict[str, float]) -> Iterator[str]:
    for name in _BY_WAY:
        value = measured.get(f"{name}_{way}")
        yield "" if value is None else number(value)


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.ways --out build/ways.json"
    generated.report(__doc__, "ways", command, section)


if __name__ == "__main__":
    main()
