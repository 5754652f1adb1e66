"""The benchmarks' own arithmetic."""

from __future__ import annotations

import pytest

from auricle.checkpoints.files import open_checkpoint
from auricle_testing.feed import ChunkTime
from auricle_testing.server import ROOT
from benchmarks.baselines.published import Position, integrated, positions, sampled
from benchmarks.encoder_work import decodes, everything, new_seconds, tail_window
from benchmarks.markdown import number
from benchmarks.speech import Word
from benchmarks.streaming.cost import growth_session
from benchmarks.words import (
    Errors,
    committed_at,
    difference_interval,
    errors,
    matches,
    rate,
    revised,
    spoken_in,
)

pytestmark = pytest.mark.unit
GEOMETRY = open_checkpoint(ROOT / "models/demo").geometry
SECOND = 16_000


def test_the_published_loop_decodes_at_every_chunk_and_at_the_end() -> None:
    found = positions([(0, 5 * SECOND)], 2 * SECOND, tokens_per_second=10)
    assert [p.end for p in found] == [2 * SECOND, 4 * SECOND, 5 * SECOND]
    # No prefix for two chunks, then all but the last five tokens of the hypothesis before.
    assert [p.prefix_tokens for p in found] == [0, 0, 35]
    assert [p.new_tokens for p in found] == [20, 40, 15]


def test_a_segmented_loop_starts_anew_in_each_segment() -> None:
    found = positions([(0, 4 * SECOND), (4 * SECOND, 8 * SECOND)], 2 * SECOND, 10)
    assert [(p.start, p.end) for p in found] == [
        (0, 2 * SECOND), (0, 4 * SECOND), (4 * SECOND, 6 * SECOND), (4 * SECOND, 8 * SECOND),
    ]  # fmt: skip
    assert [p.prefix_tokens for p in found] == [0, 0, 0, 0]


def test_a_linear_cost_is_integrated_exactly_from_a_sample() -> None:
    every = positions([(0, 300 * SECOND)], SECOND, 3.5)
    chosen = sampled(every, 20)
    assert len(chosen) == 20
    assert (chosen[0], chosen[-1]) == (every[0], every[-1])

    def cost(position: Position) -> float:
        return 0.1 + 2e-6 * position.end

    total = integrated(chosen, [cost(p) for p in chosen], every)
    assert total == pytest.approx(sum(cost(p) for p in every))


def test_errors_and_rates() -> None:
    rows = [errors("one two three", "one too three four"), errors("five six", "five six")]
    assert rows == [Errors(2, 3), Errors(0, 2)]
    assert rate(rows) == pytest.approx(0.4)
    assert errors("", "ghost") == Errors(1, 0)
    assert errors("word", "") == Errors(1, 1)


def test_an_interval_of_equal_errors_is_zero_and_of_unequal_ones_is_not() -> None:
    ours = [Errors(i % 3, 10) for i in range(60)]
    assert difference_interval(ours, ours) == (0.0, 0.0)
    low, high = difference_interval([Errors(e.wrong + 1, 10) for e in ours], ours)
    assert low == high == pytest.approx(0.1)


def test_words_belong_to_the_segment_that_has_their_middle() -> None:
    words = [Word("a", 0, 1), Word("b", 1, 2), Word("c", 2, 3)]
    assert [w.text for w in spoken_in(words, 0.6, 2.4)] == ["b"]
    assert [w.text for w in spoken_in(words, 0.4, 2.6)] == ["a", "b", "c"]


def test_matches_are_words_recognised_in_order() -> None:
    assert matches(["a", "b", "c"], ["a", "x", "c"]) == [(0, 0), (2, 2)]
    assert matches([], ["a"]) == []


def test_a_word_is_committed_when_it_first_appears_as_it_stays() -> None:
    partials = [(1.0, "one"), (2.0, "one tw"), (3.0, "one two")]
    assert committed_at(partials, "one two three", end=4.0) == [1.0, 3.0, 4.0]


def test_what_was_taken_back_is_counted() -> None:
    assert revised([(1, "one tw"), (2, "one two")], "one twofold") == (0, 2)
    assert revised([(1, "one two")], "one too") == (1, 2)
    assert revised([(1, "one two"), (2, "one")], "one two") == (1, 1)


def test_growth_compares_the_same_place_in_the_segments() -> None:
    chunks = [
        ChunkTime(segment, offset, 0.1 * (segment + 1) * offset)
        for segment in range(4)
        for offset in (5.0, 15.0, 29.0)
    ]
    assert growth_session(chunks) == pytest.approx(2.0)


def test_encoder_work_by_hand() -> None:
    assert everything(1_000, GEOMETRY).windows == (800, 200)
    assert everything(1_000, GEOMETRY).blocks == (100,) * 10
    assert tail_window(1_000, GEOMETRY).windows == (200,)
    assert tail_window(832, GEOMETRY).windows == (800, 32)  # the first was just finished
    # 9.36 s were known: the tenth second is new, and the one before was not whole.
    assert new_seconds(1_000, GEOMETRY).blocks == (100,)
    assert new_seconds(1_024, GEOMETRY).blocks == (100, 24)


def test_a_session_is_decoded_every_chunk_and_at_the_end_of_each_segment() -> None:
    assert len(decodes(60, GEOMETRY, "new seconds only")) == 2 * 47


def test_a_share_that_misses_its_bar_is_not_rounded_to_it() -> None:
    assert [number(n) for n in (0.9896, 0.99, 1.0, 0.5)] == ["0.9896", "0.99", "1", "0.5"]
