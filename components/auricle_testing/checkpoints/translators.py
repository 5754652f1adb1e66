"""A small text model with random weights in Qwen3's published format; its output is meaningless."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from auricle_testing.server import ROOT

DEMO = ROOT / "models/demo"
END_OF_TEXT, START, END = 1084, 1085, 1086
# Like Qwen3's template, without tools.
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def random_translator(
    path: Path, *, template: str | None = TEMPLATE, **config: object
) -> Qwen3ForCausalLM:
    """Write one with the demo's tokenizer to `path`; return it as a transformers model."""
    path.mkdir(parents=True, exist_ok=True)
    for name in ("merges.txt", "vocab.json", "generation_config.json"):
        shutil.copyfile(DEMO / name, path / name)
    tokenizer = json.loads((DEMO / "tokenizer_config.json").read_text())
    tokenizer.pop("chat_template", None)
    if template is not None:
        tokenizer["chat_template"] = template
    (path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    sizes = Qwen3Config(
        vocab_size=1152,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=END,
        bos_token_id=END_OF_TEXT,
        initializer_range=0.5,  # so that answers differ from prompt to prompt
    )
    torch.manual_seed(11)
    model = Qwen3ForCausalLM(sizes).eval()
    model.save_pretrained(path)
    shutil.copyfile(DEMO / "generation_config.json", path / "generation_config.json")
    file = path / "config.json"
    named = {"architectures": ["Qwen3ForCausalLM"], "translate_languages": ["es", "de"]}
    file.write_text(json.dumps(json.loads(file.read_text()) | named | config))
    return model
