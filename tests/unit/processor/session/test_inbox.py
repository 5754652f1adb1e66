"""A session's audio buffer: ordered, idempotent, bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.core.errors import ProtocolError
from auricle.processor.session.inbox import AudioInbox

pytestmark = pytest.mark.unit
SECOND = 16_000


def pcm(start: int, count: int) -> bytes:
    return np.arange(start, start + count, dtype="<i2").tobytes()


def samples(inbox: AudioInbox) -> list[int]:
    return [int(value) for audio in inbox.take() for value in audio.pcm]


def test_a_repeated_push_is_taken_once() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 100))
    assert inbox.received == 100
    inbox.push(0, pcm(0, 100))
    assert inbox.received == 100
    inbox.push(50, pcm(50, 100))
    assert inbox.received == 150
    assert samples(inbox) == list(range(150))


def test_a_gap_is_refused_and_says_where() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10))
    with pytest.raises(ProtocolError, match="starts at sample 20, but only 10"):
        inbox.push(20, pcm(20, 5))


def test_after_the_end_of_speech_silence_may_be_left_out() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10), "endpoint")
    inbox.push(100, pcm(100, 5))
    assert inbox.received == 105
    first, second = inbox.take()
    assert (first.start, len(first.pcm), first.boundary) == (0, 10, "endpoint")
    assert (second.start, len(second.pcm), second.boundary) == (100, 5, "none")
    with pytest.raises(ProtocolError, match="starts at sample 200, but only 105"):
        inbox.push(200, pcm(200, 5))


def test_a_repeated_end_of_speech_is_taken_once() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10), "endpoint")
    inbox.push(0, pcm(0, 10), "endpoint")
    inbox.push(10, b"", "endpoint")
    assert len(inbox.take()) == 1


def test_the_end_of_speech_may_come_without_audio() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10), "pause")
    inbox.push(10, b"", "endpoint")
    assert [audio.boundary for audio in inbox.take()] == ["pause", "endpoint"]


def test_a_session_may_end_in_silence_but_not_in_missing_speech() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10))
    with pytest.raises(ProtocolError, match="ends at sample 50, but 10"):
        inbox.end(50)
    inbox.push(10, b"", "endpoint")
    inbox.end(50)
    assert inbox.total == 50


def test_silence_left_out_takes_no_room() -> None:
    inbox = AudioInbox(0, SECOND)
    inbox.push(0, pcm(0, 100), "endpoint")
    hour = 3_600 * 16_000
    inbox.push(hour, pcm(0, 100))
    assert not inbox.full


def test_it_says_that_a_segment_has_ended_until_that_is_taken() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10))
    assert not inbox.segment_ended
    inbox.push(10, pcm(10, 10), "endpoint")
    assert inbox.segment_ended
    inbox.take()
    assert not inbox.segment_ended


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(ProtocolError, match="whole 16-bit samples"):
        AudioInbox(0, 60 * SECOND).push(0, b"abc")


def test_the_end_must_agree_with_what_was_received() -> None:
    inbox = AudioInbox(0, 60 * SECOND)
    inbox.push(0, pcm(0, 10))
    with pytest.raises(ProtocolError, match="ends at sample 11, but 10"):
        inbox.end(11)
    inbox.end(10)
    with pytest.raises(ProtocolError, match="after the end"):
        inbox.push(10, pcm(10, 1))


def test_it_is_full_until_something_is_decoded() -> None:
    inbox = AudioInbox(0, SECOND)
    inbox.push(0, bytes(2 * (SECOND - 1)))
    assert not inbox.full
    inbox.push(SECOND - 1, bytes(2))
    assert inbox.full
    inbox.consumed(SECOND // 2)
    assert not inbox.full


def test_a_resumed_session_starts_where_its_segment_starts() -> None:
    inbox = AudioInbox(500, 60 * SECOND)
    inbox.push(400, pcm(400, 200))
    assert samples(inbox) == list(range(500, 600))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=20))
def test_any_overlapping_pushes_give_the_audio_once_and_in_order(
    pushes: list[tuple[int, int]],
) -> None:
    inbox, got = AudioInbox(0, 60 * SECOND), []
    for back, count in pushes:
        start = max(0, inbox.received - back)
        inbox.push(start, pcm(start, count))
        got += samples(inbox)
    assert got == list(range(inbox.received))


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.integers(0, 60))))
def test_room_is_that_of_what_was_not_consumed(steps: list[tuple[int, bool, int]]) -> None:
    """The count follows each push and each consumption, without the silence between segments."""
    inbox, waiting = AudioInbox(0, 100), set[int]()
    for count, endpoint, consumed in steps:
        start = inbox.received + (7 if inbox.between_segments else 0)
        inbox.push(start, bytes(2 * count), "endpoint" if endpoint else "none")
        waiting |= set(range(start, start + count))
        inbox.consumed(inbox.received - consumed)
        waiting = {sample for sample in waiting if sample >= inbox.received - consumed}
        assert inbox.full == (len(waiting) >= 100)


def test_many_small_pushes_fill_it_too_until_they_are_taken() -> None:
    """They are taken all at once, on the event loop that all sessions share."""
    inbox = AudioInbox(0, 60 * SECOND)
    for at in range(1_000):
        if inbox.full:
            break
        inbox.push(at, pcm(at, 1))
    assert at == 128
    assert len(samples(inbox)) == 128
    assert not inbox.full
