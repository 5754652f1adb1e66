"""Answers that repeat themselves, or that reach their limit, are detected by their tokens."""

from __future__ import annotations

import random

import pytest

from auricle.processor.session.stability import Stability, loop_start, sound_tokens

pytestmark = pytest.mark.unit
TEXT = tuple(range(100, 140))


@pytest.mark.parametrize("period", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("cut", [0, 1])
def test_what_is_repeated_to_the_end_counts_once(period: int, cut: int) -> None:
    """This includes a last repetition that is cut by the answer's limit."""
    phrase = tuple(range(period))
    times = max(4, -(-16 // period)) + 1
    answer = (*TEXT, *(phrase * times)[: period * times - cut % period])
    assert loop_start(answer) == len(TEXT) + period


@pytest.mark.parametrize(
    "answer",
    [
        (),
        TEXT,
        (*TEXT, *(1,) * 15),  # a word, or a digit, that a person may repeat
        (*TEXT, *(1, 2, 3, 4, 5, 6) * 3),
        (*TEXT, *(1, 2) * 40, 3),  # it has ended by itself
        (*TEXT, *range(65)) * 4,
    ],
)
def test_what_people_say_is_no_loop(answer: tuple[int, ...]) -> None:
    assert loop_start(answer) is None
    assert sound_tokens(answer, whole=True, before=Stability()) == len(answer)


def test_random_text_is_no_loop_and_is_one_once_its_end_is_repeated() -> None:
    dice = random.Random(3)
    for _ in range(200):
        text = tuple(dice.choices(range(2000), k=dice.randrange(1, 90)))
        assert loop_start(text) is None
        period = dice.randrange(1, min(len(text), 64) + 1)
        start = loop_start((*text, *text[-period:] * 16))
        assert start is not None
        assert start <= len(text)


def test_an_answer_counts_up_to_its_loop_whether_it_met_its_limit_or_not() -> None:
    answer = (*TEXT, *(1, 2, 3, 4) * 5)
    for whole in (True, False):
        assert sound_tokens(answer, whole, before=Stability()) == len(TEXT) + 4


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (TEXT, 10),  # continues the hypothesis
        (TEXT[:6], 6),
        ((*TEXT[:4], 1, *TEXT[5:]), 4),
        ((1, *TEXT), 0),
    ],
)
def test_of_an_answer_that_met_its_limit_counts_what_was_known(
    answer: tuple[int, ...], count: int
) -> None:
    committed = (7, 8)
    before = Stability(tokens=(*committed, *TEXT[:10]), committed=committed)
    assert sound_tokens(answer, whole=False, before=before) == count
    assert sound_tokens(answer, whole=True, before=before) == len(answer)
