"""Floating point operations of the audio encoder, two per multiply-add. Pure.

Matrix products only, as torch's FlopCounterMode counts them: norms, activations
and softmax are a few per cent and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auricle.audio.mel import BINS
from auricle.checkpoint.geometry import Geometry
from auricle.encode_worker.padding import padded_lengths

_KERNEL = 9  # 3 x 3


@dataclass(frozen=True)
class EncoderCost:
    """Of one checkpoint's geometry."""

    d_model: int
    layers: int
    ffn: int
    channels: int
    output: int
    chunk_frames: int

    @classmethod
    def of(cls, audio_config: Mapping[str, Any], geometry: Geometry) -> EncoderCost:
        """From a checkpoint's audio config."""
        return cls(
            d_model=geometry.encoder_d_model,
            layers=int(audio_config["encoder_layers"]),
            ffn=int(audio_config["encoder_ffn_dim"]),
            channels=int(audio_config["downsample_hidden_size"]),
            output=geometry.hidden_size,
            chunk_frames=geometry.chunk_frames,
        )

    def convs(self, frames: Sequence[int]) -> int:
        """Conv stack over one batch of blocks of so many frames each."""
        padded = padded_lengths(frames, self.chunk_frames)
        return sum(self._conv(length) for length in padded)

    def _conv(self, frames: int) -> int:
        bins, steps, inputs, total = BINS, frames, 1, 0
        for _ in range(3):
            bins, steps = (bins + 1) // 2, (steps + 1) // 2
            total += 2 * _KERNEL * inputs * self.channels * bins * steps
            inputs = self.channels
        return total + 2 * steps * self.channels * bins * self.d_model

    def window(self, embeddings: int) -> int:
        """Transformer and projector over a window of that many embeddings."""
        products = 4 * self.d_model**2 + 2 * self.d_model * self.ffn
        layer = 2 * embeddings * products + 4 * embeddings**2 * self.d_model
        projector = 2 * embeddings * (self.d_model**2 + self.d_model * self.output)
        return self.layers * layer + projector
