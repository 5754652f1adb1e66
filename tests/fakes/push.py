"""Chunks of audio for a processor."""

from __future__ import annotations

import numpy as np

from auricle.frontend.audio.chunks import AudioChunk


def piece(start: int, count: int) -> AudioChunk:
    return AudioChunk(start, np.zeros(count, np.int16))
