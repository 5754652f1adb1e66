"""Gemma 4's text decoder as a vLLM model whose audio arrives as embeddings (see `model.py`).

Its layers have additional inputs per token. vLLM embeds tokens before a pass, which may be a CUDA
graph, so these inputs are kept at fixed addresses.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.model_executor.models.gemma4 import Gemma4ForCausalLM
from vllm.model_executor.models.interfaces import MultiModalEmbeddings, SupportsMultiModal

from auricle.workers.pd.vllm.model import AudioAsEmbeddings, audio_decoder

_PADDING = 0  # the token with the inputs for audio


@audio_decoder("Gemma4ForCausalLM")
class AuricleGemma4Decoder(AudioAsEmbeddings, Gemma4ForCausalLM, SupportsMultiModal):
    """The text decoder of Gemma 4."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        width = self.config.hidden_size_per_layer_input
        self._inputs = (
            torch.zeros(
                vllm_config.scheduler_config.max_num_batched_tokens,
                self.config.num_hidden_layers,
                width,
                device=self.model.embed_tokens.weight.device,
                dtype=vllm_config.model_config.dtype,
            )
            if width
            else None
        )

    def embed_input_ids(
        self,
        input_ids: torch.Tensor,
        multimodal_embeddings: MultiModalEmbeddings | None = None,
        *,
        is_multimodal: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        text = input_ids
        if is_multimodal is not None:
            audio = is_multimodal.to(input_ids.device, non_blocking=True)
            text = torch.where(audio, _PADDING, input_ids)
        if self._inputs is not None:
            found = self.model.get_per_layer_inputs(text)
            self._inputs[: len(text)].copy_(found.view(len(text), *self._inputs.shape[1:]))
        return super().embed_input_ids(
            text, multimodal_embeddings, is_multimodal=is_multimodal, **kwargs
        )

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        if self._inputs is not None and inputs_embeds is not None:
            kwargs["per_layer_inputs"] = self._inputs[: len(inputs_embeds)]
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds, **kwargs)
