"""Whisper's decoder as a vLLM model whose encoder output is in slots of the landing slab.

vLLM skips its encoder-cache connector for encoder-decoder models, so the model itself reads the
slab: `embed_multimodal` copies the windows from the slots that a request names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.config.compilation import CompilationMode
from vllm.model_executor.models.interfaces import MultiModalEmbeddings
from vllm.model_executor.models.whisper import WhisperForConditionalGeneration
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItems
from vllm.multimodal.parse import MultiModalDataItems, MultiModalDataParser
from vllm.multimodal.processing import (
    BaseProcessingInfo,
    EncDecMultiModalProcessor,
    PromptUpdate,
)

from auricle.checkpoints.files import read_config
from auricle.checkpoints.prompt import suppressed_tokens
from auricle.checkpoints.whole_chunks import positions_attended
from auricle.embeddings.slabs import attach
from auricle.workers.pd.vllm.cached_silence import (
    Attended,
    ProjectionBeforeSilence,
    SilenceProjections,
)
from auricle.workers.pd.vllm.connector import SLOTS
from auricle.workers.pd.vllm.inputs import NoDummyInputs


class WhisperInfo(BaseProcessingInfo):
    """Describes the model's inputs to vLLM."""

    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        return {"audio": 1}

    def get_mm_max_tokens_per_item(
        self, seq_len: int, mm_counts: Mapping[str, int] | None = None
    ) -> Mapping[str, int]:
        return {"audio": int(self.get_hf_config().max_source_positions)}

    def get_data_parser(self) -> MultiModalDataParser:
        return MultiModalDataParser()


class WhisperProcessor(EncDecMultiModalProcessor[WhisperInfo]):
    """Required by vLLM; requests are built without it (`requests.py`)."""

    requires_tokenizer = False

    def create_encoder_prompt(self, prompt: Any, mm_items: MultiModalDataItems) -> list[int]:
        return [0]

    def _get_mm_fields_config(
        self, hf_inputs: Any, hf_processor_mm_kwargs: Mapping[str, object]
    ) -> Mapping[str, MultiModalFieldConfig]:
        return {SLOTS: MultiModalFieldConfig.batched("audio", keep_on_cpu=True)}

    def _get_prompt_updates(
        self,
        mm_items: MultiModalDataItems,
        hf_processor_mm_kwargs: Mapping[str, object],
        out_mm_kwargs: MultiModalKwargsItems,
    ) -> Sequence[PromptUpdate]:
        return []


@MULTIMODAL_REGISTRY.register_processor(
    WhisperProcessor, info=WhisperInfo, dummy_inputs=NoDummyInputs
)
class AuricleWhisperDecoder(WhisperForConditionalGeneration):
    """Whisper without its encoder."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        del self.model.encoder
        path = Path(vllm_config.model_config.model)
        self._slab = attach(vllm_config.ec_transfer_config.ec_connector_extra_config)
        known = suppressed_tokens(path, read_config(path).architecture, self.config.vocab_size)
        self._suppressed = torch.tensor(known)
        # Requests whose embeddings the next pass takes.
        self._entering: list[Attended] = []
        # A GPU projects silence in no time, and a compiled decoder cannot look into a cache.
        eager = vllm_config.compilation_config.mode == CompilationMode.NONE
        self._caches_silence = eager and vllm_config.device_config.device_type == "cpu"
        self._silence = SilenceProjections([])

    def embed_multimodal(self, **kwargs: Any) -> MultiModalEmbeddings:
        """Return the embeddings of each request, (positions, width), without cached silence."""
        found = [self._attended(slots) for slots in kwargs[SLOTS]]
        # Before an abort is answered, which ends the pins.
        self._slab.synchronize()
        self._entering += found
        return tuple(request.own for request in found)

    def _attended(self, slots: torch.Tensor) -> Attended:
        """Return the positions of windows, given as (slot, length)."""
        named = [(int(slot), int(length)) for slot, length in slots.view(-1, 2)]
        windows = [
            torch.as_tensor(window).view(self.dtype).view(-1, self.config.d_model)
            for window in self._slab.gather(named)
        ]
        if self._caches_silence and len(windows) == 2:
            return self._silence.attended(*windows)
        rows = torch.cat(positions_attended(windows))
        return Attended(rows.to(self.proj_out.weight.device, non_blocking=True), None)

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        encoder_outputs: list[torch.Tensor] | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Decode; `encoder_outputs` are what `embed_multimodal` returned for this pass."""
        if encoder_outputs:
            self._silence.start_pass(self._entering)
            self._entering = []
        hidden: torch.Tensor = super().forward(input_ids, positions, encoder_outputs, **kwargs)
        return hidden

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return logits that exclude suppressed tokens, also for the verification of drafts."""
        logits: torch.Tensor = super().compute_logits(hidden_states)
        if logits is not None:
            logits.index_fill_(1, self._suppressed.to(logits.device), -torch.inf)
        return logits

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        decoder = ((n, w) for n, w in weights if not n.startswith("model.encoder."))
        loaded: set[str] = super().load_weights(decoder)
        if self._caches_silence:
            self._cache_silence()
        return loaded

    def _cache_silence(self) -> None:
        attentions = [layer.encoder_attn for layer in self.model.decoder.layers]
        self._silence = SilenceProjections([attention.kv_proj for attention in attentions])
        for number, attention in enumerate(attentions):
            attention.kv_proj = ProjectionBeforeSilence(attention.kv_proj, number, self._silence)
