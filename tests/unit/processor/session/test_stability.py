"""Committed text only grows, for any later output of the model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.processor.session.stability import (
    CommitRules,
    Stability,
    resumed,
    stable_text,
)

pytestmark = pytest.mark.unit


def step(state: Stability, *generated: int, offset: int = 100, rollback: int = 2) -> Stability:
    rules = CommitRules(rollback, open_tokens=1, settled_samples=500, unfixed_decodes=2)
    return state.after(generated, offset, rules=rules, ends_whole=lambda _: True)


def test_the_first_decodes_commit_nothing() -> None:
    assert step(Stability(), 1, 2, 3, 4).committed == ()


def test_afterwards_all_but_the_rolled_back_tail_is_committed() -> None:
    state = step(step(Stability(), 1, 2, 3, 4), 1, 2, 3, 4, 5)
    assert state.tokens == (1, 2, 3, 4, 5)
    assert state.committed == (1, 2, 3)


def test_what_has_not_changed_for_long_is_committed_without_waiting_for_more_words() -> None:
    state = step(Stability(), 1, 2, 3, 4, offset=100, rollback=4)
    state = step(state, 1, 2, 3, 9, offset=400, rollback=4)
    assert state.committed == ()
    state = step(state, 1, 2, 3, 9, offset=600, rollback=4)
    assert state.committed == (1, 2, 3)  # 9 is newer, and one token stays open in any case


def test_the_last_tokens_stay_open_however_long_they_have_not_changed() -> None:
    state = Stability()
    for offset in (100, 700, 1_300):
        state = step(state, 1, 2, 3, offset=offset, rollback=3)
        state = Stability(state.tokens, (), state.established, state.decodes)
    assert step(state, 1, 2, 3, offset=1_900, rollback=3).committed == (1, 2)


def test_a_shorter_hypothesis_does_not_take_back_what_was_committed() -> None:
    state = step(step(Stability(), 1, 2, 3, 4), 1, 2, 3, 4, 5)
    assert step(state).committed == (1, 2, 3)


def test_a_cut_inside_a_character_is_moved_before_it() -> None:
    state = step(Stability(), 1, 2, 3, 4, 5)
    after = state.after(
        (1, 2, 3, 4, 5), 200, rules=CommitRules(1, 1, 500, 2), ends_whole=lambda t: len(t) <= 2
    )
    assert after.committed == (1, 2)


def test_committed_words_had_been_spoken_before_the_decode_that_established_them() -> None:
    state = step(Stability(), 1, 2, 3, 4, offset=100)
    state = step(state, 1, 2, 9, 4, 5, offset=200)
    assert state.committed == (1, 2, 9)
    assert state.established == (100, 100, 200, 200, 200)
    assert state.committed_before == 200
    assert Stability().committed_before == 0


def test_a_resumed_session_goes_on_from_what_was_committed() -> None:
    state = step(resumed((1, 2, 3), 640, unfixed_decodes=2), 4, 5, 6)
    assert state.tokens == (1, 2, 3, 4, 5, 6)
    assert state.committed == (1, 2, 3, 4)


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=8), st.booleans()), max_size=12),
    st.integers(0, 6),
)
def test_committed_is_always_a_prefix_of_what_comes_next(
    outputs: list[tuple[list[int], bool]], rollback: int
) -> None:
    state = Stability()
    for number, (generated, whole) in enumerate(outputs):
        before = state.committed
        state = state.after(
            tuple(generated),
            number,
            rules=CommitRules(rollback, min(rollback, 1), 3, 2),
            ends_whole=lambda _, whole=whole: whole,
        )
        assert state.committed[: len(before)] == before
        assert state.tokens[: len(state.committed)] == state.committed
        assert len(state.established) == len(state.tokens)
        assert list(state.established) == sorted(state.established)


@pytest.mark.parametrize(
    ("text", "committed", "language", "shown"),
    [
        ("had he married a more", "", "English", "had he married"),
        ("had he married a more", "had he married a", "English", "had he married a"),
        ("had he married a more", "had he", "English", "had he married"),
        ("had, he.", "", "English", ""),
        ("had he married", "", "English", "had"),
        ("…", "", "English", ""),
        ("今天天气", "", "Chinese", "今天"),
        ("", "", "English", ""),
    ],
)
def test_the_last_two_words_are_held_back_until_more_are_heard(
    text: str, committed: str, language: str, shown: str
) -> None:
    assert stable_text(text, committed, 2, language) == shown


def test_no_word_of_a_first_text_is_shown_if_words_are_held_back() -> None:
    rules = CommitRules(5, 2, 1000, unfixed_decodes=3)
    assert [rules.early(decodes) for decodes in (1, 2, 3, 9)] == [True, True, False, False]
    assert stable_text("had he married", "", 1, "English", early=True) == ""
    assert stable_text("had he married", "had", 1, "English", early=True) == "had"
    assert stable_text("had he married", "", 0, "English", early=True) == "had he married"


def test_all_words_are_shown_if_none_are_held_back() -> None:
    assert stable_text("had he \u2026 ", "", 0, "English") == "had he \u2026 "
