"""Chunks of audio that endpointing emits."""

from __future__ import annotations

import numpy as np

from auricle.frontend.audio.chunks import AudioChunk, AudioEvent


def joined(events: list[AudioEvent]) -> list[AudioEvent]:
    """Consecutive chunks joined, up to a boundary."""
    merged: list[AudioEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            isinstance(event, AudioChunk)
            and isinstance(last, AudioChunk)
            and last.boundary == "none"
        ):
            assert event.start == last.end
            pcm = np.concatenate([last.pcm, event.pcm])
            merged[-1] = AudioChunk(last.start, pcm, event.boundary)
        else:
            merged.append(event)
    return merged


def shape(event: AudioEvent) -> tuple[object, ...]:
    if isinstance(event, AudioChunk):
        return (event.start, event.end, event.boundary)
    return (type(event), event.at)
