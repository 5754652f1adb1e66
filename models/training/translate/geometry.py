"""config.json of the demo translator: Qwen3, like the published text checkpoints."""

from __future__ import annotations

from typing import Any

END = "<|im_end|>"
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", END)
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)


def translator_config(token_ids: dict[str, int], vocab_size: int) -> dict[str, Any]:
    """`token_ids` has the ids of the special tokens; `vocab_size` includes padding."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "translate_from": ["en"],
        "translate_languages": ["es"],
        "dtype": "bfloat16",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": token_ids[END],
        "pad_token_id": token_ids["<|endoftext|>"],
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": 128,
        "initializer_range": 0.02,
        "intermediate_size": 256,
        "max_position_embeddings": 4096,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": vocab_size,
    }
