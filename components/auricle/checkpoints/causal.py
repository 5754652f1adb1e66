"""The sizes of a checkpoint with a causal encoder, such as Gemma 4.

A position is 40 ms. It depends on itself and a bounded past, so it is final once its four frames
have arrived, and windows may be cut at any position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auricle.checkpoints.geometry import FrontEnd, Geometry, SizeCheck

FRAMES_PER_POSITION = 4  # two convolutions of stride 2
# Frames of the past that a position's convolutions cover.
STEM_FRAMES = 3
# Our choice. A window is one block of vLLM's KV cache, so a finished window is never prefilled
# again. A growing block may be computed twice: a decode every 640 ms ends one frame before two
# blocks are complete.
BLOCK_FRAMES = 32
WINDOW_FRAMES = 128


@dataclass(frozen=True)
class Causal(Geometry):
    """In each of `layers`, positions attend to `past` earlier ones, convolutions cover `taps`.

    `projected` is the input width of the projector.
    """

    layers: int
    past: int
    taps: int
    projected: int

    @property
    def front_end(self) -> FrontEnd:
        return "semicausal"

    @property
    def projector_width(self) -> int:
        return self.projected

    @property
    def context_blocks(self) -> int:
        positions = 1 + self.layers * (self.past + self.taps)
        return -(-positions * FRAMES_PER_POSITION // self.block_frames)

    def embeddings(self, frames: int) -> int:
        """Return the number of positions of `frames`; the last may not be final."""
        return -(-frames // FRAMES_PER_POSITION)


def read_causal(audio: Mapping[str, Any], text: Mapping[str, Any], audio_token_id: Any) -> Causal:
    """Check audio and text config and extract the geometry.

    Raises CheckpointError, which names each wrong value and the expected one.
    """
    check = SizeCheck()
    layers, width, heads, chunk, left, kernel, projected = (
        check.number(audio, "audio_config", key)
        for key in (
            *("num_hidden_layers", "hidden_size", "num_attention_heads", "attention_chunk_size"),
            *("attention_context_left", "conv_kernel_size", "output_proj_dims"),
        )
    )
    hidden, text_layers, vocab, longest = check.text_sizes(text)
    right = audio.get("attention_context_right")
    check.require(
        right == 0,
        f"audio_config.attention_context_right is {right!r}, expected 0: an encoder that looks "
        "ahead cannot be cut anywhere",
    )
    check.require(
        chunk == left - 1,
        f"audio_config.attention_chunk_size is {chunk}, expected {left - 1}, one less than "
        "attention_context_left",
    )
    kinds = text.get("layer_types")
    check.require(
        isinstance(kinds, list) and len(kinds) == text_layers,
        f"text_config.layer_types is {kinds!r}, expected the kind of each of {text_layers} layers",
    )
    check.divisible(width, "hidden_size", heads, "num_attention_heads")
    check.token(audio_token_id, vocab, "audio_token_id")
    check.done()
    return Causal(
        block_frames=BLOCK_FRAMES,
        window_frames=WINDOW_FRAMES,
        encoder_d_model=width,
        hidden_size=hidden,
        text_layers=text_layers,
        vocab_size=vocab,
        audio_token_id=int(audio_token_id),
        max_positions=longest,
        layers=layers,
        past=left - 2,
        taps=kernel - 1,
        projected=projected,
    )
