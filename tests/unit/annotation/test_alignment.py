"""Words and times without a model: split and repaired as in transformers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from transformers.models.qwen3_asr.processing_qwen3_asr import Qwen3ASRProcessor, _fix_timestamps

from auricle.annotation.alignment import monotone
from auricle.transcript.words import aligned_languages, divided, pieces

pytestmark = pytest.mark.unit
# Letters of several scripts, digits, marks, ideographs of each block, white space of every width.
ALPHABET = "abÇéß'0٣，。-(“ \t\u3000\u00a0好世\u3400\U00020000\U0002b900豈\U0002f800ийのก́"


def reference(text: str) -> list[str]:
    # It uses no attribute of the processor.
    return Qwen3ASRProcessor.split_words_for_alignment(None, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world.", [("Hello", "Hello, "), ("world", "world.")]),
        ("¿Qué? sí", [("Qué", "¿Qué? "), ("sí", "sí")]),
        ("well-known don't", [("wellknown", "well-known "), ("don't", "don't")]),
        ("你好，world 3", [("你", "你"), ("好", "好，"), ("world", "world "), ("3", "3")]),
        ("... — ...", []),
        ("", []),
    ],
)
def test_words_are_without_punctuation_and_their_pieces_are_with_it(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert [(piece.word, piece.text) for piece in pieces(text)] == expected


def test_any_text_is_split_as_transformers_splits_it() -> None:
    draw = random.Random(0)
    for _ in range(500):
        text = "".join(draw.choices(ALPHABET, k=draw.randrange(40)))
        found = pieces(text)
        assert [piece.word for piece in found] == reference(text)
        if found:
            assert "".join(piece.text for piece in found) == text


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("私はカー・iPhoneです。", "Japanese", ["私", "は", "カ", "ー", "iPhone", "で", "す"]),
        ("ไป ที่", "Thai", ["ไ", "ป", "ท"]),
        ("カー", "", ["カー"]),
        ("Das ist カー", "German", ["Das", "ist", "カー"]),
    ],
)
def test_letters_of_scripts_without_spaces_are_words(
    text: str, language: str, expected: list[str]
) -> None:
    found = pieces(text, language)
    assert [piece.word for piece in found] == expected
    assert "".join(piece.text for piece in found) == text


def test_languages_that_need_a_dictionary_are_not_aligned() -> None:
    assert aligned_languages(("English", "Japanese")) == ("English",)
    assert {"German", "Chinese"} <= set(aligned_languages(()))
    assert not {"Japanese", "Korean", "Thai"} & set(aligned_languages(()))


def test_times_are_repaired_as_transformers_repairs_them() -> None:
    draw = random.Random(0)
    for _ in range(1000):
        # Mostly rising, some anywhere, many equal.
        raw = [
            80 * draw.choice((at, at, at + draw.randrange(-3, 4), draw.randrange(30)))
            for at in range(draw.randrange(1, 60))
        ]
        found = monotone(raw)
        assert found == _fix_timestamps(np.array(raw, np.float32))
        assert found == sorted(found)


def test_no_times_are_none() -> None:
    assert monotone([]) == []


def test_a_thousand_words_are_repaired_in_order() -> None:
    draw = random.Random(0)
    raw = [80 * (at + draw.randrange(-40, 40)) for at in range(2000)]
    found = monotone(raw)
    assert len(found) == 2000
    assert found == sorted(found)


def test_a_word_belongs_to_the_part_in_which_it_begins() -> None:
    words = ["The ", "cat, ", "a ", "dog."]
    parts = ["The cat, ", "", "a d", "og."]
    assert [words[own] for own in divided(words, parts)] == [["The ", "cat, "], [], words[2:], []]
    assert divided([], ["all"]) == [slice(0, 0)] and divided(words, []) == []
