"""Recordings against stock vLLM: the best of its ways counts, and only with the words right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.load.recorded import Rtfx
from benchmarks.load.recorded_rounds import CUT, OURS, WHOLE, ratios

pytestmark = pytest.mark.unit


def served(rtfx: float, cpu_ms: float, wer: float = 0.012) -> Rtfx:
    return Rtfx(8, 8, 0, rtfx, cpu_ms, wer)


def test_ours_is_compared_with_the_fastest_and_with_the_cheapest_way() -> None:
    found = {OURS: served(120, 10), WHOLE: served(240, 12, 0.2), CUT: served(100, 8)}
    assert ratios("demo", found) == (
        "",
        {"rtfx_ratio_long_demo": 0.5, "cpu_ratio_long_demo": 0.8},
    )


def test_being_faster_with_more_words_wrong_is_no_figure() -> None:
    found = {OURS: served(300, 5, 0.02), WHOLE: served(240, 12, 0.2), CUT: served(200, 8)}
    invalid, _ = ratios("demo", found)
    assert invalid == "WER 0.020, best baseline 0.012"


def test_recordings_that_failed_are_no_figure() -> None:
    found = {OURS: served(300, 5), WHOLE: replace(served(240, 12), failed=1)}
    assert ratios("demo", found)[0] == "1 files failed"
