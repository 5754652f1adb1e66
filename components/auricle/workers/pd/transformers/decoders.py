"""The decoder of a checkpoint, by its architecture, and what passes need of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
from auricle.checkpoints.text_model import text_weights
from auricle.checkpoints.whole_chunks import positions_attended
from auricle.core.errors import CheckpointError
from auricle.process.device import DeviceModel
from auricle.workers.pd.transformers.options import TransformersOptions

# The text decoders of architectures, as modules of transformers.

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


def text_model(checkpoint: ModelCheckpoint) -> tuple[Any, Callable[[Any], Any]]:
    """Return the config of a checkpoint's text decoder, and what makes the module from it."""
    config, build = MODELS[checkpoint.architecture.decoder]
    values = {k: v for k, v in checkpoint.text_config.items() if k != "model_type"}
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(found := values.get(key), dict):
            values[key] = {k: v for k, v in found.items() if k not in _DIMENSIONS}
    return config(**values), build


def as_modules(checkpoint: ModelCheckpoint, weights: Weights) -> Weights:
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


def _without_shared(checkpoint: ModelCheckpoint, weights: Weights) -> Weights:
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


# A static KV cache: memory of all slots is allocated once, and passes write into it in place.


class _Layer(CacheLayerMixin):
    """One layer's part of a slot: keys and values (1, heads, tokens, width).

    transformers' own static layer attends over all of its memory, filled or not; this one
    returns what is filled.
    """

    is_croppable = True
    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, filled: int) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.is_initialized = True
        self._filled = filled

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the memory is there."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write what is new behind what is filled; returns views of all that is filled then."""
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
    """KV of `slots` prompts of up to `tokens` tokens, in `layers` of so many heads and widths."""

    def __init__(
        self,
        layers: Sequence[tuple[int, int]],
        slots: int,
        tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        # Not zeroed: nothing is read before it is written, and a CPU then takes no memory for it.
        self._layers = [
            tuple(
                torch.empty((slots, heads, tokens, width), dtype=dtype, device=device)
                for _ in range(2)
            )
            for heads, width in layers
        ]

    def slot(self, number: int, filled: int) -> Cache:
        """Return a slot whose first `filled` tokens are there; passes append to it."""
        one = slice(number, number + 1)
        return Cache(layers=[_Layer(k[one], v[one], filled) for k, v in self._layers])


# A checkpoint's text decoder with the modules of transformers: one prompt at a time.


class TextDecoder(DeviceModel):
    """The decoder of a checkpoint. Raises CheckpointError if the weights do not fit the config."""

    def __init__(self, checkpoint: ModelCheckpoint, options: TransformersOptions) -> None:
        super().__init__(options.dtype, options.device, options.threads)
        config, build = text_model(checkpoint)
        config._attn_implementation = "sdpa"
        text, head = text_weights(checkpoint)
        text = as_modules(checkpoint, text)
        self._model = build(config)
        self._load(self._model, text, "text decoder")
        # Where it is absent it is tied to the embeddings of the tokens.
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
        # Of Gemma's decoders, which give each layer an input of its own by token: what stands for
        # audio there.
        per_layer = getattr(config, "hidden_size_per_layer_input", 0)
        self._stand_in = config.pad_token_id if per_layer else None
        self.kv = StaticKv(
            kv_shapes(checkpoint.text_config),
            options.slots,
            options.max_model_len,
            self._dtype,
            self._device,
        )

    @torch.inference_mode()
    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> torch.Tensor:
        """Return what `step` takes of a prompt, a row for each token, on the decoder's device.

        A piece is token ids, or a window as the bytes of its embeddings.
        """
        rows = [self._window(p) if isinstance(p, torch.Tensor) else self._ids(p) for p in pieces]
        return torch.cat(rows)

    def _ids(self, tokens: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor(tokens, dtype=torch.long, device=self._device)
        return self._with_inputs(self._model.embed_tokens(ids), ids)

    def _window(self, content: torch.Tensor) -> torch.Tensor:
        values = content.to(self._device).view(self._dtype).view(-1, self._output.shape[1])
        ids = torch.full((len(values),), self._stand_in or 0, device=self._device)
        return self._with_inputs(values, ids)

    def _with_inputs(self, embeddings: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return embeddings, and behind each the inputs of the layers, if there are some."""
        if self._stand_in is None:
            return embeddings
        inputs = self._model.get_per_layer_inputs(ids, None)
        return torch.cat([embeddings, inputs.flatten(1).to(embeddings.dtype)], 1)

    def _arguments(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        width = self._output.shape[1]
        if self._stand_in is None:
            return {"inputs_embeds": rows[None]}
        inputs = rows[None, :, width:].reshape(1, len(rows), len(self._model.layers), -1)
        return {"inputs_embeds": rows[None, :, :width], "per_layer_inputs": inputs}

    @torch.inference_mode()
    def step(self, rows: torch.Tensor, slot: Cache) -> torch.Tensor:
        """Run a pass over rows of `embedded`, behind what the slot holds.

        Returns the float32 logits of the token that follows the last one: (vocabulary,).
        """
        hidden = self._model(
            **self._arguments(rows), past_key_values=slot, use_cache=True
        ).last_hidden_state[0, -1]
        logits = torch.nn.functional.linear(hidden, self._output).float()
        return logits if self._softcap is None else capped(logits, self._softcap)


def capped(logits: torch.Tensor, most: float) -> torch.Tensor:
    """Return logits between -`most` and `most`."""
    return torch.tanh(logits / most) * most


# Whisper's decoder with the modules of transformers: one prompt at a time.


@dataclass(frozen=True)
class Feed:
    """What a pass takes: token ids, and what they attend to if that is new, (positions, width)."""

    ids: torch.Tensor
    heard: torch.Tensor | None


class WhisperTextDecoder(DeviceModel):
    """The decoder of a checkpoint, as `decoder.TextDecoder`.

    Raises CheckpointError if the weights do not fit the config.
    """

    def __init__(self, checkpoint: ModelCheckpoint, options: TransformersOptions) -> None:
        super().__init__(options.dtype, options.device, options.threads)
        values = json.loads((checkpoint.path / "config.json").read_text())
        config = WhisperConfig(**values)
        config._attn_implementation = "sdpa"
        self._model: Any = WhisperDecoder(config)
        self._load(self._model, text_weights(checkpoint)[0], "text decoder")
        self._width = checkpoint.geometry.hidden_size
        known = suppressed_tokens(checkpoint.path, checkpoint.architecture, config.vocab_size)
        self.suppressed = torch.tensor(known, dtype=torch.long, device=self._device)
        self.kv = WhisperKv(
            StaticKv(
                kv_shapes(checkpoint.text_config),
                options.slots,
                options.max_model_len,
                self._dtype,
                self._device,
            )
        )

    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> Feed:
        """Return what `step` takes of a prompt. A window is the bytes of its positions."""
        ids: list[int] = []
        windows: list[torch.Tensor] = []
        for piece in pieces:
            if isinstance(piece, torch.Tensor):
                windows.append(piece.to(self._device).view(self._dtype).view(-1, self._width))
            else:
                ids += piece
        heard = torch.cat(positions_attended(windows)) if windows else None
        return Feed(torch.tensor([ids], device=self._device), heard)

    @torch.inference_mode()
    def step(self, rows: Feed, slot: Cache) -> torch.Tensor:
        """Run a pass behind what the slot holds.

        Returns the float32 logits of the token that follows the last one: (vocabulary,).
        """
        hidden = self._model(
            input_ids=rows.ids,
            # Later passes have its keys and values in the slot.
            encoder_hidden_states=self._nothing if rows.heard is None else rows.heard[None],
            past_key_values=slot,
            use_cache=True,
        ).last_hidden_state[0, -1]
        return torch.nn.functional.linear(hidden, self._model.embed_tokens.weight).float()

    @property
    def _nothing(self) -> torch.Tensor:
        return torch.empty((1, 0, self._width), dtype=self._dtype, device=self._device)


@dataclass(frozen=True)
class WhisperKv:
    """KV of prompts, with that of what one request at a time attends to."""

    prompts: StaticKv

    def slot(self, number: int, filled: int) -> Cache:
        """Return a slot whose first `filled` tokens are there, with nothing to attend to yet."""
        cache: Cache = EncoderDecoderCache(self.prompts.slot(number, filled), DynamicCache())
        return cache


class Slots(Protocol):
    """A KV cache that is divided into slots."""

    def slot(self, number: int, filled: int) -> Any:
        """Return a slot whose first `filled` tokens are there; passes append to it."""
        ...


class Decoder(Protocol):
    """A decoder that runs one prompt at a time. Its answers have none of `suppressed`."""

    @property
    def suppressed(self) -> torch.Tensor: ...

    @property
    def kv(self) -> Slots: ...

    def embedded(self, pieces: Sequence[Sequence[int] | torch.Tensor]) -> Any:
        """Return what `step` takes of token ids, and of windows as bytes of embeddings."""
        ...

    def step(self, rows: Any, slot: Any) -> torch.Tensor:
        """Run a pass behind what the slot holds; returns the float32 logits of the next token."""
        ...


def decoder_of(checkpoint: ModelCheckpoint, options: TransformersOptions) -> Decoder:
    """Load the decoder. Raises CheckpointError if its weights do not fit."""
    if checkpoint.architecture.audio == "cross_attention":
        return WhisperTextDecoder(checkpoint, options)
    return TextDecoder(checkpoint, options)
