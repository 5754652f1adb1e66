"""The benchmark's JSON as its section of RESULTS.md.

python -m benchmarks.real_speech.report build/real-speech.json [--exact build/exact.json]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import generated
from benchmarks.generated import number, table
from benchmarks.real_speech.units import SETS, WAYS, WORDLESS

_COMMAND = (
    "python -m benchmarks.real_speech --model DIR --ctranslate2 DIR --out build/real-speech.json"
)
# figure → (what it is, its bar)
EXACT: dict[str, tuple[str, str]] = {
    "tokens_equal_stock_vllm": ("segments with the tokens of stock vLLM's Whisper, padded", "1"),
    "tokens_equal_with_drafts": ("the same with drafts, of which the end is wrong", "1"),
    "tokens_equal_forced_prefix": ("the same with half of the text forced", "1"),
    "finals_equal_cached_full": ("the same before cached silence and padded", ""),
    "wer_cached_minus_full": ("word errors before cached silence − padded, points", "≤ 0.3"),
    "exact_segments": ("segments", ""),
    "exact_tokens": ("tokens", ""),
}
FIGURES: dict[str, tuple[str, str]] = {
    "wer_post_minus_best_people": ("word errors by POST − faster-whisper's, points", "≤ 0.3"),
    "wer_command_line_minus_best_people": ("command line − faster-whisper's", "≤ 0.3"),
    "wer_post_minus_best_neural": ("POST − faster-whisper's, the neural voice", "≤ 0.3"),
    "wer_command_line_minus_best_neural": ("command line − faster-whisper's, the same", "≤ 0.3"),
    "wer_live_minus_post_people": ("live − POST", "≤ 1"),
    "wer_live_640_minus_post_people": ("live at 640 ms − POST", ""),
    "wer_live_2560_minus_post_people": ("live at 2,560 ms − POST", ""),
    "wer_live_minus_post_neural": ("live − POST, the neural voice", "≤ 1"),
    "words_people": ("words of people", "≥ 1,000"),
    "words_neural": ("of the neural voice", "≥ 3,000"),
    "invented_words_post": ("words in half an hour without any, by POST", "0"),
    "invented_words_live": ("live", "0"),
    "wordless_minutes_live": ("minutes of it", "30"),
    "cpu_per_second_real_time_people": (
        "one live session: CPU per second of audio",
        "≤ 0.35 tiny.en, ≤ 0.7 base",
    ),
    "first_text_p50_s": ("from speech to its first text, s", ""),
    "first_text_p95_s": ("95%", "≤ 2"),
    "stop_to_final_p50_ms": ("from the end of audio to the last text, ms", ""),
    "stop_to_final_p95_ms": ("95%", "≤ 500"),
}


def section(
    result: dict[str, Any], exact: Mapping[str, Mapping[str, Any]], command: str
) -> Iterator[str]:
    """Return lines of Markdown."""
    rest = "; definitions in [METRICS.md](METRICS.md#real-speech)"
    yield from generated.heading("Real speech", result["environment"], command, rest)
    for model, found in result["models"].items():
        measured = found["figures"]
        yield f"### {model}"
        yield ""
        yield from generated.figures(FIGURES, measured)
        if model in exact:
            yield from generated.figures(EXACT, exact[model]["figures"])
        yield "Word errors in points, and CPU seconds per second of audio:"
        yield ""
        sets = [name for name in SETS if name != WORDLESS and _has(measured, name)]
        ways = [way for way in WAYS if any(f"wer_{way}_{name}" in measured for name in sets)]
        rows = [[name, *(_cell(measured, way, name) for way in ways)] for name in sets]
        yield from table(["", *(way.replace("_", " ") for way in ways)], rows)


def _has(measured: Mapping[str, float], name: str) -> bool:
    return any(f"wer_{way}_{name}" in measured for way in WAYS)


def _cell(measured: Mapping[str, float], way: str, name: str) -> str:
    points = measured.get(f"wer_{way}_{name}")
    if points is None:
        return ""
    return f"{number(points)} · {number(measured[f'cpu_per_second_{way}_{name}'])}"


def main() -> None:
    """See the module."""
    parser = generated.parser(__doc__, _COMMAND)
    parser.add_argument("--exact", type=Path, help="the result of benchmarks.real_speech.exact")
    arguments = parser.parse_args()
    exact = json.loads(arguments.exact.read_text())["exact"] if arguments.exact else {}
    generated.publish(
        "real_speech", arguments.result, lambda result: section(result, exact, arguments.command)
    )


if __name__ == "__main__":
    main()
