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
