"""Checkpoints for benchmarks: real formats and geometries, random weights.

    python -m benchmarks.checkpoints 60m --output build/checkpoints/60m

`60m` is small enough for a CPU; `0.6b` and `1.7b` have the geometries of Qwen/Qwen3-ASR-0.6B and
-1.7B, for a GPU. The output head is zero for every token except words, so that a decode ends only
at `max_tokens`. The benchmarks use 3.5 tokens per second of audio, the rate of fast English speech.

`0.6b-steady` continues an answer as it began, as trained weights do: each word determines the next
one regardless of the audio, so that drafts are accepted. All of its layers are computed in full.

`tiny` only shows that a program runs; `1.7b-encoder` has the encoder of `1.7b` and a decoder of one
layer.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.harness import Benchmark, main
from models.training.export import write_processor_files
from models.training.geometry import demo_config
from models.training.model import DemoModel
from models.training.tokenizer import SPECIAL_TOKENS, write_tokenizer

TOKENS_PER_SECOND = 3.5
_SYLLABLES = [c + v for c in "bdfghjklmnprstvwz" for v in ("a", "e", "i", "o", "u")]


@dataclass(frozen=True)
class Size:
    """The differences from the demo checkpoint's config, and the number of words.

    The decoder of a `steady` one hardly changes a token's embedding, from which its head derives
    the next word.
    """

    audio: dict[str, int]
    text: dict[str, int]
    vocabulary: int
    words: int
    steady: bool = False


SIZES = {
    "tiny": Size(
        audio={
            "d_model": 32, "encoder_layers": 2, "num_hidden_layers": 2, "output_dim": 32,
            "encoder_attention_heads": 1, "encoder_ffn_dim": 64, "downsample_hidden_size": 8,
        },
        text={
            "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1,
            "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 64,
        },
        vocabulary=8192,
        words=3000,
    ),
    "60m": Size(
        audio={
            "d_model": 512, "encoder_layers": 8, "num_hidden_layers": 8, "output_dim": 512,
            "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "downsample_hidden_size": 480,
        },
        text={
            "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
            "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 1536,
        },
        vocabulary=8192,
        words=3000,
    ),
    "0.6b": Size(
        audio={
            "d_model": 896, "encoder_layers": 18, "num_hidden_layers": 18, "output_dim": 1024,
            "encoder_attention_heads": 14, "encoder_ffn_dim": 3584, "downsample_hidden_size": 480,
        },
        text={
            "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
            "max_position_embeddings": 65536,
        },
        vocabulary=151_936,
        words=3000,
    ),
    "1.7b": Size(
        audio={
            "d_model": 1024, "encoder_layers": 24, "num_hidden_layers": 24, "output_dim": 2048,
            "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "downsample_hidden_size": 480,
        },
        text={
            "hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16,
            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144,
            "max_position_embeddings": 65536,
        },
        vocabulary=151_936,
        words=3000,
    ),
}  # fmt: skip
SIZES["1.7b-encoder"] = replace(
    SIZES["1.7b"], text={**SIZES["1.7b"].text, "num_hidden_layers": 1}, vocabulary=8192
)
SIZES["0.6b-steady"] = replace(SIZES["0.6b"], steady=True)
# Not zero: a multiplication by zero may cost less.
_NEXT_TO_NOTHING = 1e-4


def write_checkpoint(size: Size, output: Path, seed: int = 0) -> None:
    """Write config, tokenizer and bfloat16 weights in the original Qwen3-ASR format.

    The weights are written last and atomically: if they exist, the checkpoint is complete.
    """
    output.mkdir(parents=True, exist_ok=True)
    pairs = itertools.product(_SYLLABLES, _SYLLABLES)
    words = [a + b for a, b in itertools.islice(pairs, size.words)]
    write_tokenizer(output, words)
    ids = _special_ids(output)
    config = demo_config(ids | {"vocab_size": size.vocabulary})
    thinker = config["thinker_config"]
    thinker["audio_config"] |= size.audio
    thinker["text_config"] |= size.text | {"tie_word_embeddings": False}
    (output / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_processor_files(output)
    torch.manual_seed(seed)
    weights = DemoModel(config).published_weights()
    weights["thinker.lm_head.weight"] = _head(output, config)
    if size.steady:
        _steady(weights, output)
    unfinished = output / "model.safetensors.unfinished"
    save_file(weights, unfinished, metadata={"format": "pt"})
    unfinished.replace(output / "model.safetensors")


def _special_ids(output: Path) -> dict[str, int]:
    added = json.loads((output / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    ids = {entry["content"]: int(number) for number, entry in added.items()}
    return {token: ids[token] for token in SPECIAL_TOKENS}


def _words(output: Path) -> list[int]:
    vocabulary = json.loads((output / "vocab.json").read_text())
    return [number for token, number in vocabulary.items() if token.startswith("Ġ") and token[1:]]


def _head(output: Path, config: dict[str, Any]) -> torch.Tensor:
    """Return a head that is random for words and zero for all other tokens."""
    text = config["thinker_config"]["text_config"]
    head = torch.zeros(text["vocab_size"], text["hidden_size"])
    words = _words(output)
    head[words] = torch.randn(len(words), text["hidden_size"]) * 0.5
    return head.to(torch.bfloat16)


def _steady(weights: dict[str, torch.Tensor], output: Path) -> None:
    """Have each word follow the one before it in the vocabulary."""
    for name, weight in weights.items():
        if name.startswith("thinker.model.layers.") and name.endswith(
            ("self_attn.o_proj.weight", "mlp.down_proj.weight")
        ):
            weights[name] = weight * _NEXT_TO_NOTHING
    words = _words(output)
    embeddings = weights["thinker.model.embed_tokens.weight"][words]
    following = torch.nn.functional.normalize(embeddings.float(), dim=1).to(torch.bfloat16)
    weights["thinker.lm_head.weight"][words] = following.roll(1, dims=0)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--output", type=Path, required=True)


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "checkpoint": lambda run: write_checkpoint(SIZES[run.arguments.size], run.arguments.output)
    },
    arguments=_arguments,
    sizes=(),
    out=None,
)

if __name__ == "__main__":
    main(BENCHMARK)
