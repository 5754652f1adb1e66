"""Detectors and audio for tests of listening."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from auricle.audio.voice_activity import Floats, VoiceState
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.audio.resume_state import AudioCheckpoint

LOUD = st.lists(st.tuples(st.sampled_from([0.0, 0.4, 0.9]), st.integers(1, 25)), max_size=12).map(
    lambda runs: [value for value, frames in runs for _ in range(frames)]
)


def numbered(samples: int) -> np.ndarray:
    return np.arange(samples, dtype=np.int64).astype(np.int16)


def carried(point: AudioCheckpoint) -> AudioCheckpoint:
    """The checkpoint after encoding and decoding, as in a token."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(point), type=AudioCheckpoint)


def flat(events: list[AudioEvent]) -> list[tuple[Any, ...]]:
    """Every sample and every mark in order, independent of the chunk boundaries."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, AudioChunk):
            found += [(event.start + at, int(value)) for at, value in enumerate(event.pcm)]
            if event.boundary != "none":
                found.append((event.end, event.boundary))
        else:
            found.append((type(event), event.at))
    return found


class ByContent:
    """Voice activity from the samples: the first sample of a frame is its probability."""

    def __init__(self) -> None:
        self.model = self

    async def detect(self, state: VoiceState, frames: Floats) -> list[float]:
        for frame in frames:
            # Like the model, keep the end of the last frame in its state.
            state.context = frame[-64:]
        return [float(frame[0]) for frame in frames]


async def listened(ingest: Ingest, data: bytes, packet: int) -> list[AudioEvent]:
    events: list[AudioEvent] = []
    for at in range(0, len(data), packet):
        ingest.take(data[at : at + packet])
        while ingest.ready:
            events += await ingest.process()
    return events
