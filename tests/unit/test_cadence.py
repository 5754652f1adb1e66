"""`benchmarks.ways.cadence`: what is decoded, what of it changes, and what is known already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auricle.processor.stability import Tokens
from auricle.settings import ProcessorSettings
from benchmarks.streaming.audio import Word
from benchmarks.ways.cadence import Hearing, Segment, Sums, changed, encoded_seconds, rules

pytestmark = pytest.mark.unit
SECOND = 16_000


class OneWordASecond:
    """A model that hears word n in second n; its tokens are the numbers of the words."""

    def __init__(self) -> None:
        self.decoded: list[tuple[int, Tokens]] = []

    def embeddings(self, samples: np.ndarray) -> Any:
        return len(samples)

    def answer(self, audio: int, *, prefix: Tokens, max_tokens: int) -> Tokens:
        self.decoded.append((audio, prefix))
        return tuple(range(len(prefix), min(audio // SECOND, max_tokens)))

    def text(self, tokens: Tokens) -> str:
        return " ".join(f"word{token}" for token in tokens)


@pytest.fixture
def model() -> OneWordASecond:
    return OneWordASecond()


@pytest.fixture
def hearing(model: OneWordASecond) -> Hearing:
    words = tuple(Word(f"word{n}", n, n + 1) for n in range(6))
    samples = np.zeros(6 * SECOND, np.float32)
    return Hearing(model, Segment(samples, words), ProcessorSettings())  # type: ignore[arg-type]


def test_a_segment_is_decoded_at_grid_points_and_at_its_end(hearing: Hearing) -> None:
    steps, written = hearing.steps(4 * SECOND, rules(ProcessorSettings(), 5, 1.2))
    assert [(step.offset // SECOND, step.committed) for step in steps[:1]] == [(4, "")]
    assert steps[-1].offset == 6 * SECOND
    assert steps[-1].committed == steps[-1].text == "word0 word1 word2 word3 word4 word5"
    assert written == 4 + 6


def test_what_was_decoded_is_not_decoded_again(hearing: Hearing, model: OneWordASecond) -> None:
    assert hearing.tokens(3 * SECOND, ()) == (0, 1, 2)
    assert hearing.tokens(3 * SECOND, (0, 1)) == (0, 1, 2)
    assert len(model.decoded) == 1
    assert hearing.tokens(3 * SECOND, (7,)) == (7, 1, 2)
    assert model.decoded[-1] == (3 * SECOND, (7,))


def test_a_larger_rollback_commits_later_and_nothing_is_wrong(hearing: Hearing) -> None:
    late = {}
    for rollback in (1, 4):
        sums = Sums()
        sums.add(hearing, SECOND, rules(ProcessorSettings(), rollback, 100.0))
        late[rollback] = float(np.median(sums.committed))
        assert sums.shown == [0.0] * 6
        assert (sums.changed, sums.unsupported, sums.words, sums.decodes) == (0, 0, 6, 6)
        assert sums.errors[0].wrong == 0
    assert late[1] < late[4]


def test_words_that_are_gone_have_changed() -> None:
    assert changed(["a b", "a c d", "a c d e"]) == 1
    assert changed(["a b c", "a"]) == 2
    assert changed(["", "a"]) == 0


def test_the_growing_window_is_what_is_encoded() -> None:
    assert encoded_seconds(5 * SECOND) == 5
    assert encoded_seconds(8 * SECOND) == 8
    assert encoded_seconds(9 * SECOND) == 1
