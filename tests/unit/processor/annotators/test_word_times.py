"""Times of words: the aligner's answer in the session's time, or the commit grid."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from auricle.processor.annotators.words import aligned, commit_grid
from auricle.protocol.sessions import SegmentWords
from auricle.protocol.stream import Word
from auricle.transcript.words import pieces

pytestmark = pytest.mark.unit
TEXT = "one two, three"
SPLIT = pieces(TEXT)
SECOND = 16_000


SURE = (0.9, None, 0.5)


def times(words: Sequence[Word]) -> list[int]:
    return [time for word in words for time in (word.start_ms, word.end_ms)]


def test_aligned_times_are_counted_from_the_begin_of_the_session() -> None:
    found = aligned(3, 5 * SECOND, SPLIT, (0, 80, 80, 400, 640, 960), SURE)
    assert found == SegmentWords(
        3,
        (
            Word("one", "one ", 5000, 5080, 0.9),
            Word("two", "two, ", 5080, 5400),
            Word("three", "three", 5640, 5960, 0.5),
        ),
        "aligned",
    )


def test_a_word_lies_between_the_decodes_before_and_after_it() -> None:
    """`one ` was there after 1 s and the rest after 2.5 s, in a segment of 3 s."""
    heard = [(3, SECOND), (4, SECOND), (9, 5 * SECOND // 2), (14, 5 * SECOND // 2)]
    one, two, three = commit_grid(SECOND, 3 * SECOND, SPLIT, heard, SURE)
    assert (one.start_ms, one.end_ms) == (1000, 1750)
    assert two.start_ms == 2000
    assert 2000 < two.end_ms < three.start_ms < three.end_ms == 3500
    assert [word.confidence for word in (one, two, three)] == list(SURE)


@pytest.mark.parametrize("heard", [[], [(3, SECOND), (12, 2 * SECOND)]])
def test_without_decodes_of_this_text_words_are_spread_over_the_segment(
    heard: list[tuple[int, int]],
) -> None:
    found = commit_grid(0, 14 * SECOND, SPLIT, heard, SURE)
    assert times(found) == [0, 3000, 4000, 8000, 9000, 14_000]


def test_a_decode_beyond_the_segments_end_gives_no_time_beyond_it() -> None:
    """The last decode may have had more audio than the segment was cut to."""
    found = commit_grid(0, SECOND, SPLIT, [(4, SECOND // 2), (14, 2 * SECOND)], SURE)
    given = times(found)
    assert given[-1] == 1000
    assert all(before <= after for before, after in pairwise(given))


def test_a_character_that_is_still_to_come_moves_no_word() -> None:
    """The last token has two bytes of a character; the text ends before it."""
    heard = [(3, SECOND), (4, SECOND), (14, 2 * SECOND), (16, 3 * SECOND)]
    whole = commit_grid(0, 3 * SECOND, SPLIT, heard[:3], SURE)
    assert times(commit_grid(0, 3 * SECOND, SPLIT, heard, SURE)[:2]) == times(whole[:2])
