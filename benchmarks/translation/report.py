"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.translation.report build/translation.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import generated

_POLICIES = {
    "agreement": "agreement",
    "mask_1": "mask-1",
    "mask_3": "mask-3",
    "mask_5": "mask-5",
    "offline": "whole segments",
}
_BY_POLICY = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "lag_median_s": "lag behind the committed source: median, s",
    "lag_p95_s": "95th percentile, s",
    "longyaal_unaware_s": "LongYAAL, computation-unaware, s",
    "longyaal_aware_s": "LongYAAL, computation-aware, s",
}
_KILLED = {
    "translate_worker": "the only translate worker killed",
    "one_of_two_translate_workers": "one of two translate workers killed",
}
_HURT = {
    "text_identical": ("{}: sessions with their text", "1"),
    "words_lost": ("words of translations lost", "0"),
    "words_doubled": ("words of translations said twice", "0"),
    "words_taken_back": ("committed words taken back", "0"),
    "translations_missing_share": ("segments said to be missing", ""),
}
KNOWN = {
    "erasure": ("committed words of translations taken back", "0"),
    "translations_missing_share": ("segments without a whole translation", "0"),
    "prefix_cache_hit_ratio": ("prompt tokens found in the KV cache", ""),
    "draft_accepted_ratio": ("draft tokens accepted", ""),
    "final_delay_ratio": ("stop to final with a translation ÷ without", "≤ 1.02"),
    "final_delay_ratio_low": ("its 95% interval: from", ""),
    "final_delay_ratio_high": ("to", ""),
    "capacity_without_translation": ("live sessions, none with a translation", ""),
    "capacity_with_translation": ("live sessions, all with one target language", ""),
    "capacity_translation_ratio": ("the latter ÷ the former", ""),
    **{
        f"{figure}_{name}": (what.format(killed), bar)
        for name, killed in _KILLED.items()
        for figure, (what, bar) in _HURT.items()
    },
}


def section(result: dict[str, Any], command: str) -> Iterator[str]:
    """Return lines of Markdown."""
    rest = ", definitions in [METRICS.md](METRICS.md#translation)"
    yield from generated.heading("Translation", result["environment"], command, rest)
    yield f"Translator: {result['translator']}. Parts that are not here are not measured yet."
    yield ""
    figures = result["figures"]
    yield from generated.figures(KNOWN, figures)
    columns = [name for name in _POLICIES if f"bleu_{name}" in figures]
    if columns:
        rows = [
            [what, *(_shown(figures, f"{figure}_{name}") for name in columns)]
            for figure, what in _BY_POLICY.items()
        ]
        yield from generated.table(["", *(_POLICIES[name] for name in columns)], rows)
    yield from generated.left_out(result)


def _shown(figures: dict[str, float], name: str) -> str:
    return generated.number(figures[name]) if name in figures else "–"


def main() -> None:
    """See the module."""
    command = "python -m benchmarks.translation --out build/translation.json"
    generated.report(__doc__, "translation", command, section)


if __name__ == "__main__":
    main()
