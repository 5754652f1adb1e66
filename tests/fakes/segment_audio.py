"""Audio of a segment, and its geometry."""

from __future__ import annotations

import numpy as np

from auricle.checkpoints.geometry import Geometry
from auricle.processor.session.windows import KeyScheme, SegmentAudio

GEOMETRY = Geometry(
    block_frames=100,
    window_frames=800,
    encoder_d_model=160,
    hidden_size=192,
    text_layers=3,
    vocab_size=1100,
    audio_token_id=7,
    max_positions=8192,
)
SCHEME = KeyScheme("f" * 32, "float32", "tenant")
SECOND = 16_000


def speech(seconds: float, level: float = 0.1, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(int(seconds * SECOND))
    return np.clip(noise * level * 32768, -32768, 32767).astype(np.int16)


def segment(*parts: np.ndarray, scheme: KeyScheme = SCHEME) -> SegmentAudio:
    audio = SegmentAudio(GEOMETRY, scheme)
    for part in parts:
        audio.push(part)
    return audio
