"""Committed translation text stays, consists of whole words, and is complete in the end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.annotation.translation.text import (
    GrowingTranslation,
    Rule,
    agreement,
    is_cut,
    joined,
    last_cut,
    mask,
    whole_words,
)

pytestmark = pytest.mark.unit
RULES = [agreement, mask(1), mask(3)]
# Mixed scripts with and without white space; few words, so that hypotheses partly agree.
WORDS = st.sampled_from(["la", "casa", "casas", "azul,", "no.", "書", "籍が", "¿y", "ไม่", "3.5"])
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", " ", ""])), max_size=8).map(
    lambda parts: "".join(word + space for word, space in parts)
)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(replies=st.lists(TEXTS, max_size=6), last=TEXTS)
def test_no_word_is_taken_back_and_none_is_missing(
    rule: Rule, replies: list[str], last: str
) -> None:
    told = GrowingTranslation()
    for text in replies:
        following = told.after(text, rule, whole=False)
        assert following.committed.startswith(told.committed)
        assert following.hypothesis == joined(told.committed, text).rstrip()
        assert following.committed + following.partial == following.hypothesis
        if following.committed != told.committed:
            assert is_cut(following.hypothesis, len(following.committed))
        told = following
    whole = told.after(last, rule, whole=True)
    assert whole.committed.startswith(told.committed)
    assert whole.committed == joined(told.committed, last).rstrip() and whole.partial == ""
    # Each committed word is still a word of the whole text.
    assert whole.committed[: len(told.committed)].split() == told.committed.split()
    rest = whole.committed[len(told.committed) :]
    assert not told.committed or not rest or joined(told.committed, rest) == whole.committed


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=2, max_size=5))
def test_agreement_keeps_only_what_two_hypotheses_have(texts: list[str]) -> None:
    told = GrowingTranslation()
    for text in texts:
        following = told.after(text, agreement, whole=False)
        grown = following.committed[len(told.committed) :]
        assert told.hypothesis[len(told.committed) :].startswith(grown)
        told = following


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ("", "la casa azul", ""),
        ("la casa azul", "la casa roja", "la casa"),
        ("la casa azul", "la casa azul", "la casa"),  # the last word may still grow
        ("la casas", "la casa azul", "la"),
        ("la casa", "la casa azul", "la"),
        ("la, casa", "la casa", ""),
        ("これは本", "これは本です", "これは"),
        ("これは木です", "これは本です", "これは"),
    ],
)
def test_agreement(before: str, now: str, kept: str) -> None:
    assert now[: agreement(before, now)] == kept


@pytest.mark.parametrize(
    ("words", "now", "kept"),
    [
        (1, "la casa azul", "la casa"),
        (2, "la casa azul", "la"),
        (3, "la casa azul", ""),
        (0, "la casa azul", "la casa"),  # at least one
        (2, "これは本です", "これは本"),
    ],
)
def test_mask(words: int, now: str, kept: str) -> None:
    assert now[: mask(words)("", now)] == kept


def test_what_follows_a_committed_word_is_another_word() -> None:
    assert joined("la red", "es azul") == "la red es azul"
    assert joined("la red", " es azul") == "la red es azul"
    assert joined("la red", ", sí") == "la red, sí"
    assert joined("この", "本") == "この本"
    assert joined("", " la") == "la"


def test_a_word_that_goes_on_is_not_asked_for() -> None:
    assert whole_words("the blue bo", "at sails") == "the blue"
    assert whole_words("the blue", " boat") == "the blue"
    assert whole_words("the blue", "") == "the"
    assert whole_words("", "the") == ""
    assert whole_words("这本", "书") == "这本"


def test_a_character_is_not_taken_apart() -> None:
    text = "ไม่ไป"
    assert all(text[at] not in "\u0e48\u0e31" for at in range(1, 6) if is_cut(text, at))
    assert last_cut("casa azul", 100) == 4
