"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.keywords.report build/keywords.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated

# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "keyword_leak_per_1000_words": ("keywords written that were not said", "≤ 0.5"),
    "keyword_leak_per_1000_words_unguarded": ("the same without the guard", ""),
    "keyword_recall_gain": ("said keywords that are written, with a list − without", ""),
    "keyword_recall_without": ("share of them without a list", ""),
    "keyword_recall": ("with it", ""),
    "keyword_recall_unguarded": ("with it, without the guard", ""),
    "keyword_wer_said_without": ("word errors where keywords are said, points; no list", ""),
    "keyword_wer_said_guarded": ("with it", ""),
    "keyword_wer_said_unguarded": ("with it, without the guard", ""),
    "keyword_wer_not_said_without": ("where they only sound alike; no list", ""),
    "keyword_wer_not_said_guarded": ("with it", ""),
    "keyword_wer_not_said_unguarded": ("with it, without the guard", ""),
    "keyword_recordings": ("recordings", "≥ 500"),
    "keyword_words": ("words said", ""),
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    rest = f", {result['voices']} voices; definitions in [METRICS.md](METRICS.md#keywords)"
    yield from generated.heading("Keywords", result["environment"], command, rest)
    yield from generated.figures(FIGURES, result["figures"])


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.keywords --out build/keywords.json"
    generated.report(__doc__, "keywords", command, section)


if __name__ == "__main__":
    main()
