"""The replay buffer of a session's audio, and its next push."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.link.session_line import ReplayBuffer
from auricle.protocol.sessions import Boundary

pytestmark = pytest.mark.unit
SECOND = 16_000


def piece(start: int, count: int, boundary: Boundary = "none") -> AudioChunk:
    return AudioChunk(start, np.arange(start, start + count).astype(np.int16), boundary)


def sent(kept: ReplayBuffer) -> list[tuple[int, int, str]]:
    """Send all audio."""
    pieces = []
    while (following := kept.next()) is not None:
        pieces.append((following.start, following.end, following.boundary))
        kept.sent()
    return pieces


def test_small_pieces_that_wait_are_sent_together_up_to_a_boundary() -> None:
    kept = ReplayBuffer()
    for each in (piece(0, 5), piece(5, 5, "pause"), piece(10, 5), piece(15, 0, "endpoint")):
        kept.add(each)
    kept.add(piece(100, 5))
    assert sent(kept) == [(0, 10, "pause"), (10, 15, "endpoint"), (100, 105, "none")]


def test_a_large_piece_is_cut_and_keeps_its_boundary_at_the_end() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 25 * SECOND, "endpoint"))
    assert sent(kept) == [
        (0, 10 * SECOND, "none"),
        (10 * SECOND, 20 * SECOND, "none"),
        (20 * SECOND, 25 * SECOND, "endpoint"),
    ]


def test_audio_waits_until_there_is_as_much_as_the_processor_wants() -> None:
    kept = ReplayBuffer()
    kept.want(100)
    kept.add(piece(0, 99))
    assert not kept.ready
    assert kept.next(all_of_it=False) is None
    kept.add(piece(99, 1))
    assert kept.ready
    following = kept.next(all_of_it=False)
    assert following is not None
    assert (following.start, following.end) == (0, 100)


def test_after_a_move_only_audio_without_final_text_is_sent_again() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 10, "endpoint"))
    kept.add(piece(50, 10))
    sent(kept)
    kept.forget_before(10)
    kept.send_again()
    assert sent(kept) == [(50, 60, "none")]


def test_a_piece_with_a_cut_inside_is_kept_from_the_cut_on() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 10, "pause"))
    sent(kept)
    kept.forget_before(4)
    kept.send_again()
    following = kept.next()
    assert following is not None and following.boundary == "pause"
    assert following.pcm.tolist() == list(range(4, 10))


def test_an_end_of_speech_not_sent_yet_survives_the_text_before_it() -> None:
    """A long segment ends at a pause; the end of speech at the same sample follows later."""
    kept = ReplayBuffer()
    kept.add(piece(0, 10, "pause"))
    sent(kept)
    kept.add(piece(10, 0, "endpoint"))
    kept.forget_before(10)
    assert sent(kept) == [(10, 10, "endpoint")]


def test_unsent_counts_samples_waiting() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 10, "pause"))
    kept.add(piece(10, 7))
    kept.next()
    kept.sent()
    assert kept.unsent == 7


def test_audio_at_a_boundary_or_the_end_waits_for_nothing() -> None:
    for boundary in ("pause", "endpoint"):
        kept = ReplayBuffer()
        kept.want(100)
        kept.add(piece(0, 30, boundary))  # type: ignore[arg-type]
        assert kept.ready
    kept = ReplayBuffer()
    kept.want(100)
    kept.add(piece(0, 30))
    assert sent(kept) == [(0, 30, "none")]


def test_after_a_cut_within_speech_the_processor_is_asked_again_what_it_wants() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 230))
    sent(kept)
    kept.want(70)
    kept.forget_before(180)
    kept.add(piece(230, 1))
    assert kept.ready


def test_after_an_endpoint_the_next_segment_gathers_as_much_as_was_wanted() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 230, "endpoint"))
    sent(kept)
    kept.want(100)
    kept.forget_before(230)
    kept.add(piece(300, 99))
    assert not kept.ready


def test_another_processor_gets_all_there_is_at_once() -> None:
    kept = ReplayBuffer()
    kept.add(piece(0, 50))
    sent(kept)
    kept.send_again()
    kept.want(100)
    assert kept.ready
    assert sent(kept) == [(0, 50, "none")]
    kept.add(piece(50, 10))
    assert not kept.ready


@given(st.lists(st.sampled_from(("add", "mark", "send", "forget", "again")), max_size=60))
def test_what_is_unsent_is_counted_as_it_comes_and_goes(steps: list[str]) -> None:
    kept, end, final = ReplayBuffer(), 0, 0
    for step in steps:
        if step in ("add", "mark"):
            kept.add(piece(end, 7, "pause" if step == "mark" else "none"))
            end += 7
        elif step == "send" and kept.next() is not None:
            kept.sent()
        elif step == "forget":
            final = min(end, final + 5)
            kept.forget_before(final)
        elif step == "again":
            kept.send_again()
        assert kept.unsent == sum(waiting.end - waiting.start for waiting in kept._waiting)
