"""models/demo with more arithmetic and the same words.

    python -m benchmarks.heavier 3x --output build/checkpoints/3x

With a model as small as the demo's, a comparison of servers measures everything except the model.
These checkpoints cost about 3, 10 and 30 times as much and give the same text, without training:
feed-forward layers are wider, with zero output weights of the new part, and there are more layers,
with zero output weights. Every server computes both in full, as none skips zeros.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.harness import Benchmark, main

_DEMO = Path(__file__).parent.parent / "models/demo"


@dataclass(frozen=True)
class Stack:
    """Transformer layers: how many, and the width of their feed-forward layers."""

    layers: int
    width: int


@dataclass(frozen=True)
class Heavier:
    """The two stacks of a checkpoint whose layers are otherwise the demo's."""

    audio: Stack
    text: Stack


# Of a layer's multiplications per token, attention's projections are 102,400 (audio) and 147,456
# (text) and the feed-forward layers 320 and 576 times their width; the convolutions stay.
SIZES = {
    "3x": Heavier(audio=Stack(10, 2496), text=Stack(6, 896)),
    "10x": Heavier(audio=Stack(18, 5232), text=Stack(9, 2304)),
    "30x": Heavier(audio=Stack(36, 8144), text=Stack(18, 3584)),
}


@dataclass(frozen=True)
class _Names:
    """Names of a stack's weights: widened by rows, widened by columns, and outputs into the
    residual stream."""

    prefix: str
    rows: tuple[str, ...]
    columns: str
    out: tuple[str, ...]


_AUDIO = _Names(
    "thinker.audio_tower.layers.",
    ("fc1.weight", "fc1.bias"),
    "fc2.weight",
    ("self_attn.out_proj.weight", "self_attn.out_proj.bias", "fc2.weight", "fc2.bias"),
)
_TEXT = _Names(
    "thinker.model.layers.",
    ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "mlp.down_proj.weight",
    ("self_attn.o_proj.weight", "mlp.down_proj.weight"),
)


def write_heavier(size: Heavier, output: Path, source: Path = _DEMO) -> None:
    """Write `source`, a checkpoint in the published format, in that size.

    The weights are written last and atomically: if they exist, the checkpoint is complete.
    Raises ValueError if `size` has fewer or narrower layers than the source.
    """
    output.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and file.suffix not in (".safetensors", ".md"):
            shutil.copyfile(file, output / file.name)
    config = json.loads((source / "config.json").read_text())
    (output / "config.json").write_text(json.dumps(_config(config, size), indent=2) + "\n")
    weights = load_file(source / "model.safetensors")
    for names, stack in ((_AUDIO, size.audio), (_TEXT, size.text)):
        weights = _grown(weights, names, stack)
    unfinished = output / "model.safetensors.unfinished"
    save_file(weights, unfinished, metadata={"format": "pt"})
    unfinished.replace(output / "model.safetensors")


def _config(config: dict[str, Any], size: Heavier) -> dict[str, Any]:
    thinker = config["thinker_config"]
    audio = {
        "encoder_layers": size.audio.layers,
        "num_hidden_layers": size.audio.layers,
        "encoder_ffn_dim": size.audio.width,
    }
    text = {"num_hidden_layers": size.text.layers, "intermediate_size": size.text.width}
    larger = {
        "audio_config": thinker["audio_config"] | audio,
        "text_config": thinker["text_config"] | text,
    }
    return config | {"thinker_config": thinker | larger}


def _grown(
    weights: Mapping[str, torch.Tensor], names: _Names, stack: Stack
) -> dict[str, torch.Tensor]:
    """Return the weights with that stack in its new size."""
    pattern = re.compile(re.escape(names.prefix) + r"(\d+)\.(.+)")
    grown: dict[str, torch.Tensor] = {}
    layers: dict[int, dict[str, torch.Tensor]] = {}
    for name, weight in weights.items():
        if (found := pattern.fullmatch(name)) is None:
            grown[name] = weight
        else:
            layers.setdefault(int(found[1]), {})[found[2]] = weight
    if stack.layers < len(layers):
        raise ValueError(f"{stack.layers} layers are fewer than the checkpoint's {len(layers)}")
    wider = [_wider(layers[number], names, stack.width) for number in range(len(layers))]
    for number in range(stack.layers):
        known = number < len(wider)
        layer = wider[number] if known else _idle(wider[number % len(wider)], names)
        # Copies: tensors that share memory cannot be saved.
        grown |= {f"{names.prefix}{number}.{name}": w.clone() for name, w in layer.items()}
    return grown


def _wider(layer: dict[str, torch.Tensor], names: _Names, width: int) -> dict[str, torch.Tensor]:
    """Repeat the input weights of the feed-forward layer; the new output weights are zero."""
    wider = dict(layer)
    for name in names.rows:
        known = layer[name]
        if width < len(known):
            raise ValueError(f"a width of {width} is less than the checkpoint's {len(known)}")
        wider[name] = known.repeat(-(-width // len(known)), *[1] * (known.dim() - 1))[:width]
    known = layer[names.columns]
    zeros = known.new_zeros(known.shape[0], width - known.shape[1])
    wider[names.columns] = torch.cat([known, zeros], dim=1)
    return wider


def _idle(layer: dict[str, torch.Tensor], names: _Names) -> dict[str, torch.Tensor]:
    """Return a layer with the same computation that adds nothing to the residual stream."""
    return layer | {name: torch.zeros_like(layer[name]) for name in names.out}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--output", type=Path, required=True)


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "checkpoint": lambda run: write_heavier(SIZES[run.arguments.size], run.arguments.output)
    },
    arguments=_arguments,
    sizes=(),
    out=None,
)

if __name__ == "__main__":
    main(BENCHMARK)
