"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.people.report build/people.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated

# figure → (what it is, its bar)
FIGURES: dict[str, tuple[str, str]] = {
    "first_word_seconds": ("from the command `auricle demo` to its first words, set up", "≤ 30"),
    "page_weight_kb": ("the heavier of the captions page and the operations page", "≤ 150"),
    "axe_violations": ("of axe-core on both pages, light, dark and on a telephone", "0"),
    "console_messages": ("on both pages", "0"),
    "broken_links": ("of the site, anchors included", "0"),
    "names_missing": ("names in the documents that nothing has", "0"),
    "names_undocumented": ("names that users meet and no document has", "0"),
    "wer_espeak_unseen": ("word errors, espeak-ng's voices held out of training", "≤ 0.12"),
    "wer_engine_unseen": ("flite's voices rms and awb, never heard", "≤ 0.25"),
    "wer_engine_unseen_rms": ("the first of them", ""),
    "wer_engine_unseen_awb": ("the second", ""),
    "wer_person_unseen": ("a person's numbers, days and months, never heard", "≤ 0.3"),
    "wer_person_unseen_words": ("of these, words said by themselves", ""),
    "wer_person_unseen_rows": ("three to six in a row", ""),
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    rest = "; definitions in [METRICS.md](METRICS.md#people)"
    yield from generated.heading("People", result["environment"], command, rest)
    yield from generated.figures(FIGURES, result["figures"])


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.people --out build/people.json"
    generated.report(__doc__, "people", command, section)


if __name__ == "__main__":
    main()
