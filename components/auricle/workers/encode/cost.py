"""Computes the audio encoder's floating-point operations, two per multiply-add. No I/O.

Counts matrix products only, as torch's FlopCounterMode does; norms, activations and softmax
are a few per cent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from auricle.audio.constants import BINS
from auricle.checkpoints.geometry import Geometry

# How far blocks are padded with zeros before the conv stack. No I/O.
#
# The published code pads every block to a whole second. Three convolutions of kernel 3 and stride 2
# look 7 frames ahead: output row j depends on frames up to 8j + 7. Padding by one further row
# therefore gives every row exactly the same inputs, and short blocks need not cost as much as a
# whole second.

_STRIDE = 8


def padded_lengths(frames: Sequence[int], block_frames: int) -> list[int]:
    """Return each block's padded length: a whole block's own, the same for all shorter ones."""
    rows = max((-(-n // _STRIDE) for n in frames if n < block_frames), default=0)
    short = min(block_frames, (rows + 1) * _STRIDE)
    return [block_frames if n == block_frames else short for n in frames]


_KERNEL = 9  # 3 x 3


class PassCost(Protocol):
    """The FLOPs of what a checkpoint's encoder does."""

    def convs(self, frames: Sequence[int]) -> int:
        """Return those of one batch of blocks with these mel frames, each by itself."""
        ...

    def window(self, embeddings: int) -> int:
        """Return those of a window of that many embeddings, beside its blocks'."""
        ...


@dataclass(frozen=True)
class EncoderCost:
    """The FLOPs of one checkpoint's encoder; fields are its sizes."""

    d_model: int
    layers: int
    ffn: int
    channels: int
    output: int
    block_frames: int

    @classmethod
    def of(cls, audio_config: Mapping[str, Any], geometry: Geometry) -> EncoderCost:
        """Read the sizes from a checkpoint's audio config."""
        return cls(
            d_model=geometry.encoder_d_model,
            layers=int(audio_config["encoder_layers"]),
            ffn=int(audio_config["encoder_ffn_dim"]),
            channels=int(audio_config["downsample_hidden_size"]),
            output=geometry.hidden_size,
            block_frames=geometry.block_frames,
        )

    def convs(self, frames: Sequence[int]) -> int:
        """Return the FLOPs of the conv stack over one batch of blocks with these mel frames."""
        padded = padded_lengths(frames, self.block_frames)
        return sum(self._conv(length) for length in padded)

    def _conv(self, frames: int) -> int:
        bins, steps, inputs, total = BINS, frames, 1, 0
        for _ in range(3):
            bins, steps = (bins + 1) // 2, (steps + 1) // 2
            total += 2 * _KERNEL * inputs * self.channels * bins * steps
            inputs = self.channels
        return total + 2 * steps * self.channels * bins * self.d_model

    def window(self, embeddings: int) -> int:
        """Return the FLOPs of transformer and projector over a window of that many embeddings."""
        products = 4 * self.d_model**2 + 2 * self.d_model * self.ffn
        layer = 2 * embeddings * products + 4 * embeddings**2 * self.d_model
        projector = 2 * embeddings * (self.d_model**2 + self.d_model * self.output)
        return self.layers * layer + projector
