"""Checkpoints of Whisper for benchmarks: the published format and sizes, random weights."""

from __future__ import annotations

from pathlib import Path

import torch

from auricle_testing.checkpoints.whisper import random_whisper

_TURBO = {
    "d_model": 1280, "encoder_layers": 32, "num_hidden_layers": 32, "decoder_layers": 4,
    "encoder_attention_heads": 20, "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128, "vocab_size": 51866,
}  # fmt: skip
# What differs from the small checkpoint of the tests, which `whisper-quick` is.
SIZES: dict[str, dict[str, int]] = {
    "whisper-quick": {},
    "whisper-large-v3-turbo": _TURBO,
    "whisper-large-v3": _TURBO | {"decoder_layers": 32},
}


def write_whisper(sizes: dict[str, int], output: Path) -> None:
    """Write config, tokenizer and bfloat16 weights, which are written last."""
    random_whisper(
        output, bins=sizes.get("num_mel_bins", 80), sizes=sizes, dtype=torch.bfloat16
    )  # fmt: skip
