"""A session's audio buffer: ordered, idempotent, bounded."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import Overloaded, ProtocolError
from auricle.processor.inbox import AudioInbox

pytestmark = pytest.mark.unit


def pcm(start: int, count: int) -> bytes:
    return np.arange(start, start + count, dtype="<i2").tobytes()


def samples(inbox: AudioInbox) -> list[int]:
    return [int(value) for audio in inbox.take() for value in audio.pcm]


async def test_a_repeated_push_is_taken_once() -> None:
    inbox = AudioInbox(0, 60)
    assert await inbox.push(0, pcm(0, 100), 1) == 100
    assert await inbox.push(0, pcm(0, 100), 1) == 100
    assert await inbox.push(50, pcm(50, 100), 1) == 150
    assert samples(inbox) == list(range(150))


async def test_a_gap_is_refused_and_says_where() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1)
    with pytest.raises(ProtocolError, match="starts at sample 20, but only 10"):
        await inbox.push(20, pcm(20, 5), 1)


async def test_after_the_end_of_speech_silence_may_be_left_out() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1, "endpoint")
    assert await inbox.push(100, pcm(100, 5), 1) == 105
    first, second = inbox.take()
    assert (first.start, len(first.pcm), first.boundary) == (0, 10, "endpoint")
    assert (second.start, len(second.pcm), second.boundary) == (100, 5, "none")
    with pytest.raises(ProtocolError, match="starts at sample 200, but only 105"):
        await inbox.push(200, pcm(200, 5), 1)


async def test_a_repeated_end_of_speech_is_taken_once() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1, "endpoint")
    await inbox.push(0, pcm(0, 10), 1, "endpoint")
    await inbox.push(10, b"", 1, "endpoint")
    assert len(inbox.take()) == 1


async def test_the_end_of_speech_may_come_without_audio() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1, "pause")
    await inbox.push(10, b"", 1, "endpoint")
    assert [audio.boundary for audio in inbox.take()] == ["pause", "endpoint"]


async def test_a_session_may_end_in_silence_but_not_in_missing_speech() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1)
    with pytest.raises(ProtocolError, match="ends at sample 50, but 10"):
        inbox.end(50)
    await inbox.push(10, b"", 1, "endpoint")
    inbox.end(50)
    assert inbox.total == 50


async def test_silence_left_out_takes_no_room() -> None:
    inbox = AudioInbox(0, 1)
    await inbox.push(0, pcm(0, 100), 1, "endpoint")
    hour = 3_600 * 16_000
    await inbox.push(hour, pcm(0, 100), 0.01)
    assert await inbox.push(hour + 100, pcm(0, 100), 0.01) == hour + 200


async def test_a_decode_under_way_hears_that_its_segment_ends() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1)
    assert not inbox.closing.is_set()
    await inbox.push(10, pcm(10, 10), 1, "endpoint")
    assert inbox.closing.is_set()
    inbox.take()
    assert not inbox.closing.is_set()


async def test_half_a_sample_is_refused() -> None:
    with pytest.raises(ProtocolError, match="whole 16-bit samples"):
        await AudioInbox(0, 60).push(0, b"abc", 1)


async def test_the_end_must_agree_with_what_was_received() -> None:
    inbox = AudioInbox(0, 60)
    await inbox.push(0, pcm(0, 10), 1)
    with pytest.raises(ProtocolError, match="ends at sample 11, but 10"):
        inbox.end(11)
    assert inbox.end(10) == 10
    with pytest.raises(ProtocolError, match="after the end"):
        await inbox.push(10, pcm(10, 1), 1)


async def test_a_full_buffer_holds_the_push_until_something_is_decoded() -> None:
    inbox = AudioInbox(0, 1)
    await inbox.push(0, bytes(2 * 16_000), 1)
    waiting = asyncio.create_task(inbox.push(16_000, bytes(2 * 100), 10))
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.consumed(8_000)
    assert await waiting == 16_100


async def test_a_buffer_that_stays_full_says_so() -> None:
    inbox = AudioInbox(0, 1)
    await inbox.push(0, bytes(2 * 16_000), 1)
    with pytest.raises(Overloaded, match="waiting to be decoded"):
        await inbox.push(16_000, bytes(2), 0.01)


async def test_a_resumed_session_starts_where_its_segment_starts() -> None:
    inbox = AudioInbox(500, 60)
    await inbox.push(400, pcm(400, 200), 1)
    assert samples(inbox) == list(range(500, 600))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=20))
def test_any_overlapping_pushes_give_the_audio_once_and_in_order(
    pushes: list[tuple[int, int]],
) -> None:
    async def run() -> None:
        inbox, got = AudioInbox(0, 60), []
        for back, count in pushes:
            start = max(0, inbox.received - back)
            await inbox.push(start, pcm(start, count), 1)
            got += samples(inbox)
        assert got == list(range(inbox.received))

    asyncio.run(run())
