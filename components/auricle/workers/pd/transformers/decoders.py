"""The text decoders of checkpoints with the modules of transformers: one prompt at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache
from transformers.models.gemma4.configuration_gemma4 import Gemma4TextConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextModel
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2Model
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model
from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeModel
from transformers.models.whisper.configuration_whisper import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperDecoder

from auricle.checkpoints.architectures.base import DecoderKind
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.geometry import kv_shapes
from auricle.checkpoints.prompt import suppressed_tokens
from auricle.checkpoints.text_model import plain_rope_config, text_weights
from auricle.checkpoints.whole_chunks import positions_attended
from auricle.core.errors import CheckpointError
from auricle.process.device import DeviceModel
from auricle.workers.pd.transformers.options import TransformersOptions

Weights = dict[str, torch.Tensor]
MODELS: dict[DecoderKind, tuple[Any, Callable[[Any], Any]]] = {
    "Qwen3ForCausalLM": (Qwen3Config, Qwen3Model),
    "Qwen3MoeForCausalLM": (Qwen3MoeConfig, Qwen3MoeModel),
    "Qwen2ForCausalLM": (Qwen2Config, Qwen2Model),
    "Gemma4ForCausalLM": (Gemma4TextConfig, Gemma4TextModel),
}
_EXPERTS = ".mlp.experts."


def text_model(checkpoint: ModelCheckpoint) -> tuple[Any, Callable[[Any], Any]]:
    """Return the config of a checkpoint's text decoder, and the module's constructor."""
    config, build = MODELS[checkpoint.architecture.decoder]
    values = plain_rope_config(checkpoint)
    values.pop("model_type", None)
    return config(**values), build


def as_modules(checkpoint: ModelCheckpoint, weights: Weights) -> Weights:
    """Return a text decoder's weights under the modules' names.

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


def _without_shared(checkpoint: ModelCheckpoint, weights: Weights) -> Weights:
    """Leave out the unused keys and values of layers that share another layer's."""
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
    """Stack one layer's experts, which are separate in checkpoints, to two tensors."""

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


class _Layer(CacheLayerMixin):
    """One layer's part of a slot: keys and values (1, heads, tokens, width).

    transformers' static layer attends over all of its memory; this one over the filled part.
    """

    is_croppable = True
    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, filled: int) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.is_initialized = True
        self._filled = filled

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the memory is allocated."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append new keys and values; returns views of the filled part."""
        begin, self._filled = self._filled, self._filled + key_states.shape[-2]
        self.keys[:, :, begin : self._filled] = key_states
        self.values[:, :, begin : self._filled] = value_states
        return self.keys[:, :, : self._filled], self.values[:, :, : self._filled]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._filled + query_length, 0

    def get_seq_length(self) -> int:
        return self._filled

    def get_max_length(self) -> int:
        return int(self.keys.shape[-2])


class StaticKv:
    """A KV cache of `slots` prompts of up to `tokens` tokens.

    Memory is allocated once and written in place. `layers` has the KV heads and width of each
    layer.
    """

    def __init__(
        self,
        layers: Sequence[tuple[int, int]],
        slots: int,
        tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        # Not zeroed: nothing is read before it is written, and a CPU commits memory on first write.
        self._layers = [
            tuple(
                torch.empty((slots, heads, tokens, width), dtype=dtype, device=device)
                for _ in range(2)
            )
            for heads, width in layers
        ]

    def slot(self, number: int, filled: int) -> Cache:
        one = slice(number, number + 1)
        return Cache(layers=[_Layer(k[one], v[one], filled) for k, v in self._layers])


class Decoder(DeviceModel):
    """A decoder with a KV cache in slots; its output never contains `suppressed` tokens.

    The constructor raises CheckpointError if the weights do not match the config.
    """

    suppressed: torch.Tensor

    def __init__(self, checkpoint: ModelCheckpoint, options: TransformersOptions) -> None:
        super().__init__(options.dtype, options.device, options.threads)
        self._width = checkpoint.geometry.hidden_size
        self._kv = StaticKv(
            kv_shapes(checkpoint.text_config),
            options.slots,
            options.max_model_len,
            self._dtype,
            self._device,
        )

    def slot(self, number: int, filled: int) -> Cache:
        return self._kv.slot(number, filled)

    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> Any:
        """Return the input of `step` for token ids, and for windows as bytes of embeddings."""
        raise NotImplementedError

    def step(self, rows: Any, slot: Cache) -> torch.Tensor:
        """Append a pass to the slot; returns the next token's float32 logits (vocabulary,)."""
        raise NotImplementedError

    def _embeddings(self, window: torch.Tensor) -> torch.Tensor:
        return window.to(self._device).view(self._dtype).view(-1, self._width)


class TextDecoder(Decoder):
    def __init__(self, checkpoint: ModelCheckpoint, options: TransformersOptions) -> None:
        super().__init__(checkpoint, options)
        config, build = text_model(checkpoint)
        config._attn_implementation = "sdpa"
        text, head = text_weights(checkpoint)
        self._model = build(config)
        self._load(self._model, as_modules(checkpoint, text), "text decoder")
        # Without a weight of its own, the output is tied to the token embeddings.
        output = head.get("weight")
        self._output = (
            self._model.embed_tokens.weight
            if output is None
            else output.to(self._device, self._dtype)
        )
        if self._output.shape != (config.vocab_size, config.hidden_size):
            raise CheckpointError(
                f"the weights of the decoder's output are {tuple(self._output.shape)}, expected "
                f"({config.vocab_size}, {config.hidden_size})"
            )
        self.suppressed = torch.empty(0, dtype=torch.long, device=self._device)
        self._softcap = getattr(config, "final_logit_softcapping", None)
        # Gemma's decoders have an additional input per layer and token; audio uses the padding's.
        per_layer = getattr(config, "hidden_size_per_layer_input", 0)
        self._padding = config.pad_token_id if per_layer else None

    @torch.inference_mode()
    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> torch.Tensor:
        rows = [self._window(p) if isinstance(p, torch.Tensor) else self._ids(p) for p in pieces]
        return torch.cat(rows)

    def _ids(self, tokens: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor(tokens, dtype=torch.long, device=self._device)
        return self._with_inputs(self._model.embed_tokens(ids), ids)

    def _window(self, content: torch.Tensor) -> torch.Tensor:
        values = self._embeddings(content)
        ids = torch.full((len(values),), self._padding or 0, device=self._device)
        return self._with_inputs(values, ids)

    def _with_inputs(self, embeddings: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if self._padding is None:
            return embeddings
        inputs = self._model.get_per_layer_inputs(ids, None)
        return torch.cat([embeddings, inputs.flatten(1).to(embeddings.dtype)], 1)

    def _arguments(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        if self._padding is None:
            return {"inputs_embeds": rows[None]}
        width = self._output.shape[1]
        inputs = rows[None, :, width:].reshape(1, len(rows), len(self._model.layers), -1)
        return {"inputs_embeds": rows[None, :, :width], "per_layer_inputs": inputs}

    @torch.inference_mode()
    def step(self, rows: torch.Tensor, slot: Cache) -> torch.Tensor:
        hidden = self._model(
            **self._arguments(rows), past_key_values=slot, use_cache=True
        ).last_hidden_state[0, -1]
        logits = torch.nn.functional.linear(hidden, self._output).float()
        cap = self._softcap
        return logits if cap is None else torch.tanh(logits / cap) * cap


@dataclass(frozen=True)
class Feed:
    """The input of a pass: token ids, and new positions to attend to, (positions, width)."""

    ids: torch.Tensor
    audio: torch.Tensor | None


class WhisperTextDecoder(Decoder):
    """Whisper's decoder, which attends to embeddings. One request at a time has some."""

    def __init__(self, checkpoint: ModelCheckpoint, options: TransformersOptions) -> None:
        super().__init__(checkpoint, options)
        config = WhisperConfig(**json.loads((checkpoint.path / "config.json").read_text()))
        config._attn_implementation = "sdpa"
        self._model: Any = WhisperDecoder(config)
        self._load(self._model, text_weights(checkpoint)[0], "text decoder")
        known = suppressed_tokens(checkpoint.path, checkpoint.architecture, config.vocab_size)
        self.suppressed = torch.tensor(known, dtype=torch.long, device=self._device)

    def slot(self, number: int, filled: int) -> Cache:
        cache: Cache = EncoderDecoderCache(super().slot(number, filled), DynamicCache())
        return cache

    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> Feed:
        ids: list[int] = []
        windows: list[torch.Tensor] = []
        for piece in pieces:
            if isinstance(piece, torch.Tensor):
                windows.append(self._embeddings(piece))
            else:
                ids += piece
        audio = torch.cat(positions_attended(windows)) if windows else None
        return Feed(torch.tensor([ids], device=self._device), audio)

    @torch.inference_mode()
    def step(self, rows: Feed, slot: Cache) -> torch.Tensor:
        audio = rows.audio
        if audio is None:  # the slot has its keys and values
            audio = torch.empty((0, self._width), dtype=self._dtype, device=self._device)
        hidden = self._model(
            input_ids=rows.ids,
            encoder_hidden_states=audio[None],
            past_key_values=slot,
            use_cache=True,
        ).last_hidden_state[0, -1]
        return torch.nn.functional.linear(hidden, self._model.embed_tokens.weight).float()


def decoder_of(checkpoint: ModelCheckpoint, options: TransformersOptions) -> Decoder:
    """Load a checkpoint's decoder. Raises CheckpointError if its weights do not match."""
    if checkpoint.architecture.audio == "cross_attention":
        return WhisperTextDecoder(checkpoint, options)
    return TextDecoder(checkpoint, options)
