"""What a frontend keeps of a session's audio, and what it sends next."""

import numpy as np
import pytest

from auricle.frontend.endpointing import Piece
from auricle.frontend.kept_audio import KeptAudio
from auricle.messages import Boundary

pytestmark = pytest.mark.unit
SECOND = 16_000


def piece(start: int, count: int, boundary: Boundary = "none") -> Piece:
    return Piece(start, np.arange(start, start + count).astype(np.int16), boundary)


def sent(kept: KeptAudio) -> list[tuple[int, int, str]]:
    """Sends all there is."""
    pieces = []
    while (following := kept.next()) is not None:
        pieces.append((following.start, following.end, following.boundary))
        kept.sent()
    return pieces


def test_small_pieces_that_wait_are_sent_together_up_to_a_boundary() -> None:
    kept = KeptAudio()
    for each in (piece(0, 5), piece(5, 5, "pause"), piece(10, 5), piece(15, 0, "endpoint")):
        kept.add(each)
    kept.add(piece(100, 5))
    assert sent(kept) == [(0, 10, "pause"), (10, 15, "endpoint"), (100, 105, "none")]


def test_a_large_piece_is_cut_and_keeps_its_boundary_at_the_end() -> None:
    kept = KeptAudio()
    kept.add(piece(0, 25 * SECOND, "endpoint"))
    assert sent(kept) == [
        (0, 10 * SECOND, "none"),
        (10 * SECOND, 20 * SECOND, "none"),
        (20 * SECOND, 25 * SECOND, "endpoint"),
    ]


def test_audio_waits_for_the_next_point_of_the_grid() -> None:
    kept = KeptAudio(SECOND // 2)
    kept.add(piece(0, SECOND // 2 - 1))
    assert not kept.ready
    kept.add(piece(SECOND // 2 - 1, 1))
    assert kept.ready


def test_where_points_are_far_apart_finished_seconds_go_ahead() -> None:
    """A second is finished 40 samples after its end: its last frame is then final."""
    kept = KeptAudio(2 * SECOND)
    kept.add(piece(0, SECOND + 39))
    assert not kept.ready
    kept.add(piece(SECOND + 39, 1))
    assert kept.ready
    assert sent(kept) == [(0, SECOND + 40, "none")]
    kept.add(piece(SECOND + 40, SECOND - 41))
    assert not kept.ready
    kept.add(piece(2 * SECOND - 1, 1))
    assert kept.ready


def test_after_a_move_only_audio_without_final_text_is_sent_again() -> None:
    kept = KeptAudio()
    kept.add(piece(0, 10, "endpoint"))
    kept.add(piece(50, 10))
    sent(kept)
    kept.forget_before(10)
    kept.send_again()
    assert sent(kept) == [(50, 60, "none")]


def test_a_piece_with_a_cut_inside_is_kept_from_the_cut_on() -> None:
    kept = KeptAudio()
    kept.add(piece(0, 10, "pause"))
    sent(kept)
    kept.forget_before(4)
    kept.send_again()
    following = kept.next()
    assert following is not None and following.boundary == "pause"
    assert following.pcm.tolist() == list(range(4, 10))


def test_an_end_of_speech_not_sent_yet_survives_the_text_before_it() -> None:
    """A long segment ends at a pause; the end of speech at the same sample comes later."""
    kept = KeptAudio()
    kept.add(piece(0, 10, "pause"))
    sent(kept)
    kept.add(piece(10, 0, "endpoint"))
    kept.forget_before(10)
    assert sent(kept) == [(10, 10, "endpoint")]


def test_unsent_counts_samples_waiting() -> None:
    kept = KeptAudio()
    kept.add(piece(0, 10, "pause"))
    kept.add(piece(10, 7))
    kept.next()
    kept.sent()
    assert kept.unsent == 7


def test_audio_waits_for_the_next_decode_of_its_segment() -> None:
    kept = KeptAudio(grid=100)
    for start in (30, 60, 90):
        kept.add(piece(start, 30))
        assert not kept.ready
        assert kept.next(all_of_it=False) is None
    kept.add(piece(120, 30))
    assert kept.ready  # the segment began at 30
    following = kept.next(all_of_it=False)
    assert following is not None
    assert (following.start, following.end) == (30, 150)


def test_audio_at_a_boundary_or_the_end_waits_for_nothing() -> None:
    for boundary in ("pause", "endpoint"):
        kept = KeptAudio(grid=100)
        kept.add(piece(0, 30, boundary))  # type: ignore[arg-type]
        assert kept.ready
    kept = KeptAudio(grid=100)
    kept.add(piece(0, 30))
    assert sent(kept) == [(0, 30, "none")]


def test_the_grid_moves_with_a_cut() -> None:
    kept = KeptAudio(grid=100)
    kept.add(piece(0, 230))
    sent(kept)
    kept.forget_before(180)
    kept.add(piece(230, 40))
    assert not kept.ready
    kept.add(piece(270, 20))
    assert kept.ready  # 180 + 100


def test_another_processor_gets_all_there_is_at_once() -> None:
    kept = KeptAudio(grid=100)
    kept.add(piece(0, 50))
    kept.send_again()
    assert kept.ready
    sent(kept)
    kept.add(piece(50, 10))
    assert not kept.ready
