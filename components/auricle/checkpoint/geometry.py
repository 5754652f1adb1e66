"""The sizes of a checkpoint that the rest of auricle depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auricle.audio.constants import BINS, HOP
from auricle.errors import CheckpointError


@dataclass(frozen=True)
class Geometry:
    """Sizes of encoder and decoder.

    `block_frames` is the conv stack's input (2·n_window mel frames, 1 s), `window_frames`
    the encoder's attention span (n_window_infer mel frames), `hidden_size` the width of an
    embedding (encoder output, decoder input), `max_positions` the decoder's context length.
    """

    block_frames: int
    window_frames: int
    encoder_d_model: int
    hidden_size: int
    text_layers: int
    vocab_size: int
    audio_token_id: int
    max_positions: int

    def embeddings(self, frames: int) -> int:
        """Return the number of embeddings of a window of `frames` mel frames."""
        full, rest = divmod(frames, self.block_frames)
        return full * _conv_length(self.block_frames) + _conv_length(rest)

    @property
    def window_embeddings(self) -> int:
        """Number of embeddings of a whole window (104 for the published checkpoints)."""
        return self.embeddings(self.window_frames)

    @property
    def window_samples(self) -> int:
        """Number of 16 kHz samples of a whole window."""
        return self.window_frames * HOP


def kv_values_per_token(text: Mapping[str, Any]) -> int:
    """Return how many numbers the KV cache keeps of a token: keys and values in all layers."""
    heads = int(text.get("num_key_value_heads") or text["num_attention_heads"])
    width = int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])
    return 2 * int(text["num_hidden_layers"]) * heads * width


def _conv_length(frames: int) -> int:
    """Return the length after three convolutions of kernel 3, stride 2, padding 1."""
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames


def read_geometry(
    audio: Mapping[str, Any], text: Mapping[str, Any], audio_token_id: Any
) -> Geometry:
    """Check audio and text config and extract the geometry.

    Raises CheckpointError, which names each wrong value and the expected one.
    """
    wrong: list[str] = []

    def number(config: Mapping[str, Any], owner: str, key: str) -> int:
        value = config.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            wrong.append(f"{owner}.{key} is {value!r}, expected a positive integer")
            return 1
        return value

    n_window = number(audio, "audio_config", "n_window")
    n_window_infer = number(audio, "audio_config", "n_window_infer")
    mel_bins = number(audio, "audio_config", "num_mel_bins")
    d_model = number(audio, "audio_config", "d_model")
    output_dim = number(audio, "audio_config", "output_dim")
    heads = number(audio, "audio_config", "encoder_attention_heads")
    hidden = number(text, "text_config", "hidden_size")
    layers = number(text, "text_config", "num_hidden_layers")
    vocab = number(text, "text_config", "vocab_size")
    positions = number(text, "text_config", "max_position_embeddings")
    if not isinstance(audio_token_id, int) or not 0 <= audio_token_id < vocab:
        wrong.append(
            f"audio_token_id is {audio_token_id!r}, expected an id below vocab_size {vocab}"
        )
    if mel_bins != BINS:
        wrong.append(f"audio_config.num_mel_bins is {mel_bins}, expected {BINS}")
    if n_window_infer % (2 * n_window):
        wrong.append(
            f"audio_config.n_window_infer is {n_window_infer}, expected a multiple of "
            f"2 x n_window = {2 * n_window} mel frames"
        )
    if d_model % heads:
        wrong.append(
            f"audio_config.d_model {d_model} is not divisible by encoder_attention_heads {heads}"
        )
    if output_dim != hidden:
        wrong.append(
            f"audio_config.output_dim is {output_dim} but text_config.hidden_size is {hidden}; "
            "the encoder's embeddings must be as wide as the decoder's"
        )
    if wrong:
        raise CheckpointError("config.json does not fit: " + "; ".join(wrong))
    return Geometry(
        block_frames=2 * n_window,
        window_frames=n_window_infer,
        encoder_d_model=d_model,
        hidden_size=hidden,
        text_layers=layers,
        vocab_size=vocab,
        audio_token_id=int(audio_token_id),
        max_positions=positions,
    )
