"""A segment's text is divided among its speakers without losing any of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.processor.annotators.speakers import grid_times, spoken_parts
from auricle.protocol.annotation import SpeakerTurn
from auricle.protocol.stream import SpeakerPart

pytestmark = pytest.mark.unit
SECOND = 16_000


def turn(speaker: int, start: float, end: float) -> SpeakerTurn:
    return SpeakerTurn(speaker, int(start * SECOND), int(end * SECOND))


def test_each_piece_belongs_to_whose_turn_it_was() -> None:
    turns = [turn(1, 0.1, 1.0), turn(2, 1.3, 2.0)]
    said = [("one ", 5.5 * SECOND), ("two ", 6.1 * SECOND), ("three", 6.9 * SECOND)]
    assert spoken_parts(turns, 5 * SECOND, said, "one two three") == (
        SpeakerPart(1, 5100, 6000, "one two "),
        SpeakerPart(2, 6300, 7000, "three"),
    )


def test_a_short_silence_does_not_end_a_turn() -> None:
    turns = [turn(1, 0, 1), turn(1, 1.3, 2), turn(1, 3, 4), turn(2, 4, 5)]
    parts = spoken_parts(turns, 0, [], "...")
    assert [(p.speaker, p.start_ms, p.end_ms) for p in parts] == [
        (1, 0, 2000),
        (1, 3000, 4000),
        (2, 4000, 5000),
    ]
    assert [part.text for part in parts] == ["...", "", ""]


@given(
    turns=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9), st.integers(1, 9)), min_size=1),
    said=st.lists(st.tuples(st.text("ab ", min_size=1), st.floats(-1e5, 1e6))),
)
def test_the_texts_joined_are_the_segments(
    turns: list[tuple[int, int, int]], said: list[tuple[str, float]]
) -> None:
    at, found = 0, []
    for speaker, pause, length in turns:
        found.append(SpeakerTurn(speaker, at + pause * 1000, at + (pause + length) * 1000))
        at = found[-1].end
    ordered = [(p, t) for (p, _), t in zip(said, sorted(t for _, t in said), strict=True)]
    text = "".join(piece for piece, _ in ordered)
    parts = spoken_parts(found, 0, ordered, text)
    assert "".join(part.text for part in parts) == text


def test_pieces_have_the_times_of_their_decodes() -> None:
    heard = [(4, SECOND), (9, 2 * SECOND)]
    said = grid_times(["ten ", "green"], heard, 10 * SECOND, 3 * SECOND)
    assert [piece for piece, _ in said] == ["ten ", "green"]
    assert [at for _, at in said] == [10.5 * SECOND, 11.5 * SECOND]


@pytest.mark.parametrize("heard", [[], [(3, SECOND)]])
def test_without_decodes_of_this_text_it_is_spread(heard: list[tuple[int, int]]) -> None:
    said = grid_times(["ab", "cd"], heard, 0, 4 * SECOND)
    assert [at for _, at in said] == [SECOND, 3 * SECOND]
