"""The log probabilities of tokens: across decodes, and as clients receive them."""

from __future__ import annotations

import pytest

from auricle.frontend.link.words import entries, joined
from auricle.processor.annotators.words import Scores
from auricle.protocol.sessions import ScoredToken, SegmentFinal
from tests.fakes.workers import GRID, ScriptedWorkers, counting, feed, session

pytestmark = pytest.mark.unit


class Words:
    """A vocabulary in which token n is the n-th letter, and 0 a control token."""

    def pieces(self, tokens: tuple[int, ...], _language: str | None) -> list[tuple[int, bytes]]:
        return [(at, bytes([96 + token])) for at, token in enumerate(tokens) if token]


def scored(*pairs: tuple[bytes, float]) -> tuple[ScoredToken, ...]:
    """Tokens with the ids that `Words` gives them."""
    return tuple(ScoredToken(data, logprob, data[-1] - 96) for data, logprob in pairs)


def test_a_token_keeps_the_probability_of_the_decode_that_generated_it() -> None:
    scores = Scores(Words(), None)
    scores.decoded((), (0, 1, 2), (-0.1, -0.2, -0.3))
    scores.decoded((0, 1), (3, 4), (-0.4, -0.5))  # the third token was different
    assert scores.tokens() == scored((b"a", -0.2), (b"c", -0.4), (b"d", -0.5))
    assert scores.pieces() == [(1, b"a", -0.2), (2, b"c", -0.4), (3, b"d", -0.5)]


def test_the_next_segment_begins_anew() -> None:
    scores = Scores(Words(), None)
    for number in range(2):
        scores.decoded((), (1 + number,), (-0.5 - number,))
    assert scores.tokens() == scored((b"b", -1.5))


def test_what_another_processor_committed_has_no_scores() -> None:
    scores = Scores(Words(), None)
    scores.decoded((1, 2), (3,), (-0.5,))
    assert scores.tokens() == ()
    assert scores.pieces() == [(0, b"a", None), (1, b"b", None), (2, b"c", -0.5)]
    scores.decoded((1, 2, 3), (4,), (-0.6,))
    assert scores.pieces()[2:] == [(2, b"c", -0.5), (3, b"d", -0.6)]


@pytest.mark.parametrize("asked", [False, True])
async def test_finals_have_the_tokens_of_their_text_if_asked_for(asked: bool) -> None:
    workers = ScriptedWorkers(counting)
    events = await feed(session(workers, logprobs=asked), 12 * GRID)
    [final] = [event for event in events if isinstance(event, SegmentFinal)]
    assert [decode.logprobs for decode in workers.decodes] == [asked] * len(workers.decodes)
    assert b"".join(token.data for token in final.tokens).decode() == (final.text if asked else "")
    generated_in = [token.logprob for token in final.tokens]  # see `ScriptedWorkers`
    assert generated_in == sorted(generated_in, reverse=True)
    assert len(set(generated_in)) > 1 or not asked


def test_tokens_of_texts_are_joined_as_the_texts_are() -> None:
    first, second = scored((b"ten", -0.1), (b" green", -0.2)), scored((b"apples", -0.3))
    assert joined([("ten green", first), ("", ()), ("apples", second)]) == scored(
        (b"ten", -0.1), (b" green", -0.2), (b" apples", -0.3)
    )
    assert joined([("ten green", first), ("apples", ())]) == ()


def test_a_part_of_a_character_has_bytes_and_no_text_of_its_own() -> None:
    said = "é".encode()
    assert entries(scored((said[:1], -1.0), (said[1:], -2.0), (b" a", -0.5))) == [
        {"token": "\ufffd", "bytes": [0xC3], "logprob": -1.0},
        {"token": "\ufffd", "bytes": [0xA9], "logprob": -2.0},
        {"token": " a", "bytes": [0x20, 0x61], "logprob": -0.5},
    ]
