"""The audio encoders' floating-point operations, two per multiply-add. No I/O.

Only matrix products count, as in torch's FlopCounterMode; norms, activations and softmax are a few
per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auricle.audio.constants import BINS
from auricle.checkpoints.causal import FRAMES_PER_POSITION, Causal
from auricle.checkpoints.files import ModelCheckpoint

_STRIDE = 8  # frames per row of the windowed encoder's three convolutions
_KERNEL = 9  # 3 x 3


def padded_lengths(frames: Sequence[int], block_frames: int) -> list[int]:
    """Return each block's length after zero padding, the same for all incomplete blocks.

    The published code pads every block to a whole second. Three convolutions of kernel 3 and stride
    2 look 7 frames ahead: output row j depends on frames up to 8j + 7. Padding by one further row
    therefore gives every row the same inputs, and short blocks cost less than a second.
    """
    rows = max((-(-n // _STRIDE) for n in frames if n < block_frames), default=0)
    short = min(block_frames, (rows + 1) * _STRIDE)
    return [block_frames if n == block_frames else short for n in frames]


@dataclass(frozen=True)
class PassCost:
    """The FLOPs of one checkpoint's encoder.

    `convs(frames)` is for a batch of blocks with these mel frames, `window(embeddings)` for a
    window of that many embeddings, given its blocks.
    """

    convs: Callable[[Sequence[int]], int]
    window: Callable[[int], int]


def cost_of(checkpoint: ModelCheckpoint) -> PassCost:
    audio, geometry = checkpoint.audio_config, checkpoint.geometry
    width, output = geometry.encoder_d_model, geometry.hidden_size
    if isinstance(geometry, Causal):
        first, second = map(int, audio["subsampling_conv_channels"])
        projected = geometry.projected
        return causal_cost(
            width, geometry.layers, geometry.past, (first, second), projected, output
        )
    layers, ffn = int(audio["encoder_layers"]), int(audio["encoder_ffn_dim"])
    if checkpoint.architecture.encoder == "whole_chunks":
        return whole_chunk_cost(width, layers, ffn, output)
    if checkpoint.architecture.encoder == "whisper":
        return whisper_cost(width, layers, ffn, geometry.mel_bins, geometry.window_embeddings)
    channels = int(audio["downsample_hidden_size"])
    return windowed_cost(width, layers, ffn, channels, output, geometry.block_frames)


def windowed_cost(
    width: int, layers: int, ffn: int, channels: int, output: int, block_frames: int
) -> PassCost:
    """The cost of Qwen3-ASR's encoder: a conv stack over blocks, a transformer over windows."""

    def conv(frames: int) -> int:
        bins, steps, inputs, total = BINS, frames, 1, 0
        for _ in range(3):
            bins, steps = (bins + 1) // 2, (steps + 1) // 2
            total += 2 * _KERNEL * inputs * channels * bins * steps
            inputs = channels
        return total + 2 * steps * channels * bins * width

    def window(embeddings: int) -> int:
        projector = 2 * embeddings * (width**2 + width * output)
        return layers * _layer(embeddings, embeddings, width, ffn) + projector

    return PassCost(lambda frames: sum(map(conv, padded_lengths(frames, block_frames))), window)


def causal_cost(
    width: int, layers: int, past: int, channels: tuple[int, int], projected: int, output: int
) -> PassCost:
    """The cost of Gemma 4's encoder: blocks take everything except the projection."""
    (first, second), bins = channels, BINS // 4
    stem = _KERNEL * first * (2 * 2 * bins + bins * second) + bins * second * width
    # Two feed-forwards, the attention's four products, and two around the convolution.
    layer = (16 + 4 + 3) * width**2 + 3 * (past + 1) * width
    position = 2 * (stem + layers * layer)
    return PassCost(
        lambda frames: sum(-(-one // FRAMES_PER_POSITION) for one in frames) * position,
        lambda embeddings: 2 * embeddings * projected * (width + output),
    )


def whole_chunk_cost(width: int, layers: int, ffn: int, output: int) -> PassCost:
    """The cost of Qwen2-Audio's encoder; its blocks are not convolved separately."""

    def window(embeddings: int) -> int:
        rows = 2 * embeddings
        encoder = _convs(rows, BINS, width) + layers * _layer(rows, rows, width, ffn)
        return encoder + 2 * embeddings * width * output

    return PassCost(lambda _frames: 0, window)


def whisper_cost(width: int, layers: int, ffn: int, bins: int, positions: int) -> PassCost:
    """The cost of Whisper's encoder, where each row attends to all `positions` of a chunk."""
    return PassCost(
        lambda _frames: 0,
        lambda rows: _convs(rows, bins, width) + layers * _layer(rows, positions, width, ffn),
    )


def _convs(rows: int, bins: int, width: int) -> int:
    return 2 * 3 * width * (2 * rows * bins + rows * width)


def _layer(rows: int, attended: int, width: int, ffn: int) -> int:
    return 2 * rows * (4 * width**2 + 2 * width * ffn) + 4 * rows * attended * width
