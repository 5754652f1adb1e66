"""Figures of METRICS.md, "Real speech", from reference texts and transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from benchmarks.real_speech.scoring import difference, interval, points, scored
from benchmarks.real_speech.units import REAL_TIME, SETS, WORDLESS, Unit
from benchmarks.words import Errors

# The first minus the second, on each set that both transcribed.
_DIFFERENCES = (
    ("post", "faster_whisper"),
    ("command_line", "faster_whisper"),
    ("post", "transformers"),
    ("post", "offline"),
    ("live", "post"),
    ("live_640", "post"),
    ("live_2560", "post"),
)
_FASTER_WHISPERS = ("faster_whisper", "faster_whisper_vad")
Units = Mapping[tuple[str, str], Unit]
Texts = Mapping[str, tuple[str, str]]  # by recording: its text and its language
Scores = dict[str, Errors]


def figures(units: Units, texts: Texts) -> dict[str, float]:
    """Return all figures of the units, which are by way and set."""
    found: dict[str, float] = {}
    scores: dict[tuple[str, str], Scores] = {}
    for (way, name), unit in units.items():
        found[f"cpu_per_second_{way}_{name}"] = unit.cpu_seconds / unit.audio_seconds
        if name == WORDLESS:
            found |= invented(way, unit)
            continue
        scores[way, name] = _scores(unit, texts)
        rows = list(scores[way, name].values())
        found[f"wer_{way}_{name}"] = points(rows)
        found |= _between(f"wer_{way}_{name}", interval(rows))
        words = float(sum(row.words for row in rows))
        found[f"words_{name}"] = max(words, found.get(f"words_{name}", 0.0))
        if way == REAL_TIME:
            found |= latencies(unit)
    for (one, other), name in product(_DIFFERENCES, SETS):
        if (one, name) in scores and (other, name) in scores:
            found |= compared(f"{one}_minus_{other}_{name}", scores[one, name], scores[other, name])
    for way, name in product(("post", "command_line"), SETS):
        if (way, name) in scores and (best := _best(scores, name)):
            found |= compared(f"{way}_minus_best_{name}", scores[way, name], best)
    return found


def _scores(unit: Unit, texts: Texts) -> Scores:
    return {row.name: scored(texts[row.name][0], row.text, texts[row.name][1]) for row in unit.rows}


def _best(scores: Mapping[tuple[str, str], Scores], name: str) -> Scores | None:
    """Return faster-whisper's scores with voice activity or without, whichever are better."""
    found = [scores[way, name] for way in _FASTER_WHISPERS if (way, name) in scores]
    return min(found, key=lambda rows: points(list(rows.values())), default=None)


def compared(name: str, ours: Scores, theirs: Scores) -> dict[str, float]:
    """Return a difference in points with its interval, on the recordings that both transcribed."""
    both = [recording for recording in ours if recording in theirs]
    a, b = [ours[recording] for recording in both], [theirs[recording] for recording in both]
    return {f"wer_{name}": points(a) - points(b)} | _between(f"wer_{name}", difference(a, b))


def _between(name: str, bounds: tuple[float, float] | None) -> dict[str, float]:
    return {} if bounds is None else {f"{name}_low": bounds[0], f"{name}_high": bounds[1]}


def invented(way: str, unit: Unit) -> dict[str, float]:
    """Return the number of words that were written for audio without words."""
    by_kind = {row.name: float(len(row.text.split())) for row in unit.rows}
    return {
        f"invented_words_{way}": sum(by_kind.values()),
        f"wordless_minutes_{way}": unit.audio_seconds / 60,
        **{f"invented_words_{way}_{kind}": count for kind, count in by_kind.items()},
    }


def latencies(unit: Unit) -> dict[str, float]:
    """Return the latencies of sessions in real time."""
    first = [row.first for row in unit.rows if row.first is not None]
    final = [1000 * row.final for row in unit.rows if row.final is not None]
    found = {
        "real_time_sessions": float(len(unit.rows)),
        "real_time_without_text": float(len(unit.rows) - len(first)),
    }
    for share in (50, 95) if first else ():
        found[f"first_text_p{share}_s"] = float(np.percentile(first, share))
        found[f"stop_to_final_p{share}_ms"] = float(np.percentile(final, share))
    return found
