"""A client's bytes are processed slice by slice, with the same result however they were cut."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.errors import ProtocolError
from auricle.frontend.listening.endpointing import EndpointingOptions, GateEvent, Piece
from auricle.frontend.listening.ingest import Ingest
from auricle.frontend.realtime.events import Append, parse_event
from benchmarks.live.frontend import InstantDetector
from benchmarks.live.inputs import speech_like
from tests.unit.test_endpointing import joined, shape

pytestmark = pytest.mark.unit
OPTIONS = EndpointingOptions(0.5, 300, 200)


async def heard(ingest: Ingest, frames: list[bytes]) -> tuple[list[GateEvent], int]:
    """All events, and the most samples that one step gave."""
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

    def events(frames: list[bytes]) -> list[GateEvent]:
        ingest = Ingest(16_000, "pcm_s16le", InstantDetector(), options)
        return joined(asyncio.run(heard(ingest, frames))[0])

    once, often = events([data]), events(cut(data, sizes))
    assert [shape(event) for event in often] == [shape(event) for event in once]
    for ours, theirs in zip(often, once, strict=True):
        if isinstance(ours, Piece) and isinstance(theirs, Piece):
            np.testing.assert_array_equal(ours.pcm, theirs.pcm)


async def test_single_samples_and_empty_frames_are_no_pieces_of_their_own() -> None:
    ingest = Ingest(16_000, "pcm_s16le", InstantDetector(), None)
    frames = [b"", b"\1", b"\0"] * 1_600
    events, _ = await heard(ingest, frames)
    pieces = [event for event in events if isinstance(event, Piece)]
    assert len(pieces) == 10  # of 10 ms each
    assert sum(len(piece.pcm) for piece in pieces) == 1_600


def test_only_audio_may_be_long() -> None:
    audio = "A" * 400_000
    long = parse_event(f'{{"type": "input_audio_buffer.append", "audio": "{audio}"}}')
    assert isinstance(long, Append)
    assert len(long.audio) == 300_000
    update = f'{{"type": "session.update", "session": {{"a": "{audio}"}}}}'
    with pytest.raises(ProtocolError, match="more than 32768 characters must be input_audio"):
        parse_event(update)
