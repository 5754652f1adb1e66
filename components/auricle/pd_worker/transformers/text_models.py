"""The text decoders of architectures, as modules of transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.models.gemma4.configuration_gemma4 import Gemma4TextConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextModel
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2Model
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model
from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeModel

from auricle.checkpoint.architectures.base import DecoderKind
from auricle.checkpoint.files import Checkpoint
from auricle.errors import CheckpointError

Weights = dict[str, torch.Tensor]
MODELS: dict[DecoderKind, tuple[Any, Callable[[Any], Any]]] = {
    "Qwen3ForCausalLM": (Qwen3Config, Qwen3Model),
    "Qwen3MoeForCausalLM": (Qwen3MoeConfig, Qwen3MoeModel),
    "Qwen2ForCausalLM": (Qwen2Config, Qwen2Model),
    "Gemma4ForCausalLM": (Gemma4TextConfig, Gemma4TextModel),
}
_EXPERTS = ".mlp.experts."
# Of rotary embeddings that are the plain ones where audio and text are all there is.
_DIMENSIONS = ("mrope_section", "mrope_interleaved", "interleaved")


def text_model(checkpoint: Checkpoint) -> tuple[Any, Callable[[Any], Any]]:
    """Return the config of a checkpoint's text decoder, and what makes the module from it."""
    config, build = MODELS[checkpoint.architecture.decoder]
    values = {k: v for k, v in checkpoint.text_config.items() if k != "model_type"}
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(found := values.get(key), dict):
            values[key] = {k: v for k, v in found.items() if k not in _DIMENSIONS}
    return config(**values), build


def as_modules(checkpoint: Checkpoint, weights: Weights) -> Weights:
    """Return a text decoder's weights as the modules have them.

    Raises CheckpointError if a layer lacks one of its experts.
    """
    if checkpoint.architecture.decoder == "Gemma4ForCausalLM":
        return _without_shared(checkpoint, weights)
    if checkpoint.architecture.decoder != "Qwen3MoeForCausalLM":
        return weights
    others = {name: tensor for name, tensor in weights.items() if _EXPERTS not in name}
    layers = {name.partition(_EXPERTS)[0] for name in weights.keys() - others.keys()}
    count = int(checkpoint.text_config["num_experts"])
    for layer in layers:
        others |= _stacked(weights, f"{layer}{_EXPERTS}", count)
    return others


def _without_shared(checkpoint: Checkpoint, weights: Weights) -> Weights:
    """Leave out the keys and values of layers that share those of others: nobody reads them."""
    text = checkpoint.text_config
    layers = int(text["num_hidden_layers"])
    first = layers - int(text["num_kv_shared_layers"])
    unread = tuple(
        f"layers.{layer}.self_attn.{name}."
        for layer in range(first, layers)
        for name in ("k_proj", "v_proj", "k_norm", "v_norm")
    )
    return {name: tensor for name, tensor in weights.items() if not name.startswith(unread)}


def _stacked(weights: Weights, experts: str, count: int) -> Weights:
    """Return one layer's experts as two tensors, which are separate in checkpoints."""

    def all_of(projection: str) -> list[torch.Tensor]:
        names = [f"{experts}{number}.{projection}.weight" for number in range(count)]
        if lacking := [name for name in names if name not in weights]:
            raise CheckpointError(
                f"the weights of the text decoder do not fit its config: missing {lacking[0]}, "
                f"of {count} experts (num_experts)"
            )
        return [weights[name] for name in names]

    both = zip(all_of("gate_proj"), all_of("up_proj"), strict=True)
    return {
        f"{experts}gate_up_proj": torch.stack([torch.cat(pair) for pair in both]),
        f"{experts}down_proj": torch.stack(all_of("down_proj")),
    }
