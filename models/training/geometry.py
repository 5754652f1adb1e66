"""config.json of the demo checkpoint, in the nested form of the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def demo_config(
    token_ids: dict[str, int], languages: Sequence[str] = ("English",)
) -> dict[str, Any]:
    """`token_ids` maps special tokens to ids and `vocab_size` to the padded size.

    `languages` are the language names at the start of answers.
    """
    audio = {
        "model_type": "qwen3_asr_audio_encoder",
        "activation_function": "gelu",
        "activation_dropout": 0,
        "attention_dropout": 0,
        "dropout": 0,
        "conv_chunksize": 500,
        "d_model": 160,
        "downsample_hidden_size": 32,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 960,
        "encoder_layers": 6,
        "initializer_range": 0.02,
        "max_source_positions": 1500,
        "n_window": 50,
        "n_window_infer": 800,
        "num_hidden_layers": 6,
        "num_mel_bins": 128,
        "output_dim": 192,
        "scale_embedding": False,
    }
    text = {
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 192,
        "initializer_range": 0.02,
        "intermediate_size": 512,
        "max_position_embeddings": 8192,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": token_ids["vocab_size"],
    }
    return {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "support_languages": list(languages),
        "thinker_config": {
            "model_type": "qwen3_asr_thinker",
            "dtype": "bfloat16",
            "initializer_range": 0.02,
            "audio_config": audio,
            "text_config": text,
            "audio_start_token_id": token_ids["<|audio_start|>"],
            "audio_end_token_id": token_ids["<|audio_end|>"],
            "audio_token_id": token_ids["<|audio_pad|>"],
        },
    }
