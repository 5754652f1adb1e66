"""Shares of right languages, and word errors, from spoken and written turns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jiwer

from benchmarks.languages.cases import Case, Turn


@dataclass(frozen=True)
class Segment:
    """A written segment: start and end (s), the name of its language, and its text."""

    start: float
    end: float
    language: str
    text: str


@dataclass(frozen=True)
class Transcribed:
    """One case: its segments with text, with the language detected and with it named."""

    case: Case
    detected: tuple[Segment, ...]
    named: tuple[Segment, ...]


def figures(cases: Sequence[Transcribed]) -> dict[str, float]:
    """Return the figures of METRICS.md, "Languages"."""
    names = sorted({turn.language for one in cases for turn in one.case.turns})
    several = [one for one in cases if len(one.case.languages) > 1]
    alone = [one for one in cases if len(one.case.languages) == 1]
    detected = _pairs(cases, named=False)
    detected_alone, given_alone = (_pairs(alone, named=named) for named in (False, True))
    found = {
        "language_turns": float(sum(len(one.case.turns) for one in cases)),
        "language_right": _right(detected),
        "language_right_of_two_detected": _right(_pairs(several, named=False)),
        "language_right_of_two_named": _right(_pairs(several, named=True)),
        "language_segments_not_named": float(_not_named(cases)),
    }
    for name in names:
        found[f"language_right_{name.lower()}"] = _right(detected, name)
        found[f"wer_detected_{name.lower()}"] = _wer(detected_alone, name)
        found[f"wer_given_{name.lower()}"] = _wer(given_alone, name)
    return found


def _pairs(cases: Sequence[Transcribed], *, named: bool) -> list[tuple[Turn, list[Segment]]]:
    """Return each turn with the segments whose middle is nearer to it than to other turns."""
    return [pair for one in cases for pair in _of(one.case, one.named if named else one.detected)]


def _of(case: Case, segments: Sequence[Segment]) -> Iterator[tuple[Turn, list[Segment]]]:
    taken: dict[Turn, list[Segment]] = {turn: [] for turn in case.turns}
    for segment in segments:
        middle = (segment.start + segment.end) / 2
        nearest = min(case.turns, key=lambda turn: max(turn.start - middle, middle - turn.end, 0.0))
        taken[nearest].append(segment)
    yield from taken.items()


def _right(pairs: Sequence[tuple[Turn, list[Segment]]], name: str | None = None) -> float:
    """Return the share of turns (in the language `name`) with all segments in their language."""
    counted = [pair for pair in pairs if name in (None, pair[0].language)]
    right = sum(
        bool(segments) and all(one.language == turn.language for one in segments)
        for turn, segments in counted
    )
    return right / max(1, len(counted))


def _not_named(cases: Sequence[Transcribed]) -> int:
    return sum(s.language not in one.case.languages for one in cases for s in one.named)


def _wer(pairs: Sequence[tuple[Turn, list[Segment]]], name: str) -> float:
    """Return the word error rate in a language, in points; capitals and accents count."""
    counted = [pair for pair in pairs if pair[0].language == name]
    said = [turn.text for turn, _ in counted]
    written = [" ".join(segment.text for segment in segments) for _, segments in counted]
    return 100 * float(jiwer.wer(said, written)) if said else 0.0
