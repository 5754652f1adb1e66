"""A client's bytes are processed slice by slice, with the same result for any chunking."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, SpeechEnd
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.protocols.realtime.events import Append, parse_event
from auricle_testing.fakes import InstantDetector
from auricle_testing.noise import speech_like
from tests.fakes.pieces import joined, shape

pytestmark = pytest.mark.unit
OPTIONS = EndpointingOptions(0.5, 300, 200)


async def heard(ingest: Ingest, frames: list[bytes]) -> tuple[list[AudioEvent], int]:
    """All events, and the largest number of samples in one step."""
    events, largest = [], 0
    for frame in frames:
        ingest.take(frame)
        while ingest.ready:
            before = ingest.total_samples
            events += await ingest.process()
            largest = max(largest, ingest.total_samples - before)
    return events + await ingest.end(), largest


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    frames, at = [], 0
    for size in sizes:
        frames.append(data[at : at + size])
        at += size
    return [*frames, data[at:]]


@pytest.mark.parametrize(
    ("rate", "encoding", "most"),
    [(16_000, "pcm_s16le", 16_000), (8_000, "pcm_mulaw", 17_000), (192_000, "pcm_s16le", 3_000)],
)
@pytest.mark.parametrize("options", [OPTIONS, None])
async def test_a_frame_of_a_megabyte_is_processed_in_slices(
    rate: int, encoding: str, most: int, options: EndpointingOptions | None
) -> None:
    ingest = Ingest(rate, encoding, InstantDetector(), options)
    _, largest = await heard(ingest, [speech_like(1 << 19)])
    assert 0 < largest <= most


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 5_000), max_size=60), st.booleans())
def test_the_cuts_do_not_show(sizes: list[int], endpointing: bool) -> None:
    data, options = speech_like(40_000), OPTIONS if endpointing else None

    def events(frames: list[bytes]) -> list[AudioEvent]:
        ingest = Ingest(16_000, "pcm_s16le", InstantDetector(), options)
        return joined(asyncio.run(heard(ingest, frames))[0])

    once, often = events([data]), events(cut(data, sizes))
    assert [shape(event) for event in often] == [shape(event) for event in once]
    for ours, theirs in zip(often, once, strict=True):
        if isinstance(ours, AudioChunk) and isinstance(theirs, AudioChunk):
            np.testing.assert_array_equal(ours.pcm, theirs.pcm)


async def test_single_samples_and_empty_frames_are_no_pieces_of_their_own() -> None:
    ingest = Ingest(16_000, "pcm_s16le", InstantDetector(), None)
    frames = [b"", b"\1", b"\0"] * 1_600
    events, _ = await heard(ingest, frames)
    pieces = [event for event in events if isinstance(event, AudioChunk)]
    assert len(pieces) == 10  # of 10 ms each
    assert sum(len(piece.pcm) for piece in pieces) == 1_600


PACKET = 640  # bytes: 20 ms
GRID = 10_240


async def looked_at(ingest: Ingest, data: bytes, grid: int) -> tuple[list[AudioEvent], list[int]]:
    """All events of audio in packets, and the positions (session samples) of the processing steps.

    The processor has work at every `grid` samples of a segment.
    """
    events: list[AudioEvent] = []
    looks, at, passed = [], 0, 0
    while at < len(data):
        wanted = ingest.missing_bytes(grid - passed % grid)
        ingest.hold_back(grid - passed % grid)
        until = min(len(data), at + -(-wanted // PACKET) * PACKET)
        ingest.take(data[at:until])
        at = until
        while ingest.ready:
            found = await ingest.process()
            looks.append(ingest.total_samples)
            for event in found:
                if isinstance(event, AudioChunk):
                    passed = 0 if event.boundary == "endpoint" else passed + len(event.pcm)
            events += found
    return events + await ingest.end(), looks


@pytest.mark.parametrize("min_silence_ms", [100, 500])
@pytest.mark.parametrize("rate", [16_000, 48_000])
async def test_looked_at_when_there_is_something_to_decide_the_same_is_found(
    rate: int, min_silence_ms: int
) -> None:
    data, options = speech_like(400_000), EndpointingOptions(0.5, min_silence_ms, 300)

    def ingest() -> Ingest:
        return Ingest(rate, "pcm_s16le", InstantDetector(), options)

    often = joined((await heard(ingest(), cut(data, [PACKET] * (len(data) // PACKET))))[0])
    seldom, looks = await looked_at(ingest(), data, GRID)
    assert [shape(event) for event in joined(seldom)] == [shape(event) for event in often]
    assert any(isinstance(event, AudioChunk) and event.boundary == "endpoint" for event in often)
    if rate == SAMPLE_RATE and min_silence_ms == 500:
        assert len(looks) < len(data) / 2 / 512 / 3  # under a third of its frames


@pytest.mark.parametrize("options", [OPTIONS, None])
@pytest.mark.parametrize("grid", [1_280, 5_120, GRID])
async def test_a_grid_point_is_passed_on_with_the_packet_that_completes_its_frame(
    options: EndpointingOptions | None, grid: int
) -> None:
    """Text must not be late, even if the audio is otherwise held back for longer."""
    speech = np.full(80_000, 8_000, np.int16).tobytes()
    ingest = Ingest(SAMPLE_RATE, "pcm_s16le", InstantDetector(), options)
    events, looks = await looked_at(ingest, speech, grid)
    begin = next(event.start for event in events if isinstance(event, AudioChunk))
    frame = 512 if options else 1
    # The first slice has the start of speech.
    for point in range(begin + grid, len(speech) // 2, grid):
        if point > looks[1]:
            decided = -(-point // frame) * frame
            seen = next(look for look in looks if look >= decided)
            assert seen < decided + PACKET // 2 + 1, point


async def test_an_end_of_speech_is_found_with_the_packet_that_completes_its_silence() -> None:
    loud, silence = np.full(40_960, 8_000, np.int16), np.zeros(32_000, np.int16)
    ingest = Ingest(SAMPLE_RATE, "pcm_s16le", InstantDetector(), EndpointingOptions(0.5, 500, 300))
    data, at = np.concatenate([loud, silence]).tobytes(), 0
    stopped = False
    while not stopped:
        until = at + -(-ingest.missing_bytes(GRID) // PACKET) * PACKET
        ingest.hold_back(GRID)
        ingest.take(data[at:until])
        at = until
        stopped = any(isinstance(event, SpeechEnd) for event in await ingest.process())
    quiet_since = 40_960 - 2 * 512  # the delay of voice activity detection
    decided = -(-(quiet_since + 8_000) // 512) * 512
    assert decided <= ingest.total_samples <= decided + PACKET // 2


def test_only_audio_may_be_long() -> None:
    audio = "A" * 400_000
    long = parse_event(f'{{"type": "input_audio_buffer.append", "audio": "{audio}"}}')
    assert isinstance(long, Append)
    assert len(long.audio) == 300_000
    update = f'{{"type": "session.update", "session": {{"a": "{audio}"}}}}'
    with pytest.raises(ProtocolError, match="more than 32768 characters must be input_audio"):
        parse_event(update)
