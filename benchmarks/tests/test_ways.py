"""The benchmark of the protocols reports how far their texts differ, and invented words."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.speech import Recording, Word
from benchmarks.ways.figures import figures, invented
from benchmarks.ways.ways import Segment, Transcript

pytestmark = pytest.mark.unit
SPOKEN = Recording(
    np.zeros(16_000 * 10, np.float32),
    tuple(
        Word(word, at, at + 0.5) for at, word in enumerate(["my", "red", "bus", "is", "slow"], 1)
    ),
    (),
)
SILENT = Recording(np.zeros(16_000, np.float32), (), ())


def heard(*texts: str, start: float = 0.7) -> Transcript:
    return Transcript(
        tuple(Segment(text, start + 2 * n, start + 2 * n + 1) for n, text in enumerate(texts))
    )


def test_the_spread_is_between_the_best_and_the_worst_way() -> None:
    texts = {
        "command_line": [heard("my red bus is slow")],
        "post": [heard("my red bus is slow")],
        "live": [heard("my red bus is blue")],
    }
    nothing = {way: [Transcript(())] for way in texts}
    found = figures([SPOKEN], texts, [SILENT], nothing)
    assert (found["wer_post"], found["wer_live"]) == (0.0, pytest.approx(20.0))
    assert found["wer_ways_spread"] == pytest.approx(20.0)
    assert (found["same_text_post"], found["same_text_live"]) == (1.0, 0.0)


def test_words_are_invented_where_nobody_speaks() -> None:
    assert invented(SPOKEN, heard("my red bus")) == 0
    assert invented(SPOKEN, heard("near maria", start=8.0)) == 2
    assert invented(SILENT, heard("january")) == 1
    texts = {"command_line": [heard("my red bus is slow")]}
    found = figures([SPOKEN], texts, [SILENT], {"command_line": [heard("january")]})
    assert found["invented_words_command_line"] == 1.0
