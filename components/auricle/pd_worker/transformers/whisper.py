"""Whisper's decoder with the modules of transformers: one prompt at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.models.whisper.configuration_whisper import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperDecoder

from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.geometry import kv_shapes
from auricle.checkpoint.suppressed import suppressed_tokens
from auricle.checkpoint.text_weights import text_weights
from auricle.checkpoint.whole_chunks import positions_attended
from auricle.pd_worker.transformers.kv_cache import StaticKv
from auricle.pd_worker.transformers.options import TransformersOptions
from auricle.process.torch_modules import DeviceModel


@dataclass(frozen=True)
class Feed:
    """What a pass takes: token ids, and what they attend to if that is new, (positions, width)."""

    ids: torch.Tensor
    heard: torch.Tensor | None


class WhisperTextDecoder(DeviceModel):
    """The decoder of a checkpoint, as `decoder.TextDecoder`.

    Raises CheckpointError if the weights do not fit the config.
    """

    def __init__(self, checkpoint: Checkpoint, options: TransformersOptions) -> None:
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
