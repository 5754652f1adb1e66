"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.languages.report build/languages.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated

_EACH = {"english": "English", "german": "German", "spanish": "Spanish"}
# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "language_right": ("share of turns in the language that was spoken, detected", ""),
    **{f"language_right_{one}": (f"of those in {name}", "") for one, name in _EACH.items()},
    "language_right_of_two_detected": ("where two languages are spoken by turns, detected", ""),
    "language_right_of_two_named": ("the same with `languages` those two", ""),
    "language_segments_not_named": ("segments in a language that was not named", "0"),
    **{
        f"wer_detected_{one}": (f"word errors in {name}, points", "") for one, name in _EACH.items()
    },
    **{f"wer_given_{one}": (f"{name}, with its language given", "") for one, name in _EACH.items()},
    "language_turns": ("turns", ""),
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    rest = ", unseen voices; definitions in [METRICS.md](METRICS.md#languages)"
    yield from generated.heading("Languages", result["environment"], command, rest)
    yield from generated.figures(FIGURES, result["figures"])


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.languages --out build/languages.json"
    generated.report(__doc__, "languages", command, section)


if __name__ == "__main__":
    main()
