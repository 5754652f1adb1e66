"""Text decoders as vLLM models whose audio arrives as embeddings.

Each is vLLM's own decoder with `AudioAsEmbeddings` before it, and reads a checkpoint of any
architecture with that decoder. It has no audio tower: each audio item of the prompt is one encoder
window of `audio_num_tokens` embeddings, which the EC connector supplies (`connector.py`). Plain
RoPE is exact here (positions of audio and text are consecutive), so no M-RoPE is configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.model_executor.models.interfaces import MultiModalEmbeddings, SupportsMultiModal
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM
from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM
from vllm.model_executor.models.qwen3_moe import Qwen3MoeForCausalLM
from vllm.model_executor.models.utils import AutoWeightsLoader, WeightsMapper, maybe_prefix
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItems
from vllm.multimodal.parse import MultiModalDataItems, MultiModalDataParser
from vllm.multimodal.processing import (
    BaseDummyInputsBuilder,
    BaseMultiModalProcessor,
    BaseProcessingInfo,
    PromptReplacement,
    PromptUpdate,
)

from auricle.checkpoints.architectures import ARCHITECTURES
from auricle.checkpoints.architectures.base import DecoderKind
from auricle.checkpoints.files import read_config


def text_config(config: Any) -> Any:
    """Return the decoder's config from either checkpoint format."""
    return getattr(config, "thinker_config", config).text_config


def audio_token_id(config: Any) -> int:
    """Return the id of the audio placeholder token from either checkpoint format."""
    return int(getattr(config, "thinker_config", config).audio_token_id)


class WindowParser(MultiModalDataParser):
    """Parses `{"audio_num_tokens": (windows,)}`; the connector may supply the embeddings."""

    embedding_fields = {  # noqa: RUF012 - vLLM's own declaration style
        "audio": {"audio_embeds": "values", "audio_num_tokens": "metadata"}
    }


class DecoderInfo(BaseProcessingInfo):
    """Describes the model's inputs to vLLM."""

    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        return {"audio": None}

    def get_mm_max_tokens_per_item(
        self, seq_len: int, mm_counts: Mapping[str, int] | None = None
    ) -> Mapping[str, int]:
        # vLLM keeps room for one in its encoder cache.
        geometry = read_config(Path(self.ctx.model_config.model)).geometry
        return {"audio": geometry.window_embeddings}

    def get_data_parser(self) -> MultiModalDataParser:
        return WindowParser(
            expected_hidden_size=text_config(self.get_hf_config()).hidden_size,
            allow_missing_mm_embeddings=self.allow_missing_mm_embeddings,
        )


class DecoderDummyInputs(BaseDummyInputsBuilder[DecoderInfo]):
    """Dummy inputs for vLLM's memory profiling."""

    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        return ""

    def get_dummy_mm_data(
        self, seq_len: int, mm_counts: Mapping[str, int], mm_options: Any
    ) -> dict[str, Any]:
        return {}


class DecoderProcessor(BaseMultiModalProcessor[DecoderInfo]):
    """Expands each window's `<|audio_pad|>` to one placeholder per embedding."""

    requires_tokenizer = False

    def _get_mm_fields_config(
        self, hf_inputs: Any, hf_processor_mm_kwargs: Mapping[str, object]
    ) -> Mapping[str, MultiModalFieldConfig]:
        return {
            "audio_embeds": MultiModalFieldConfig.batched("audio"),
            "audio_num_tokens": MultiModalFieldConfig.batched("audio", keep_on_cpu=True),
        }

    def _get_prompt_updates(
        self,
        mm_items: MultiModalDataItems,
        hf_processor_mm_kwargs: Mapping[str, object],
        out_mm_kwargs: MultiModalKwargsItems,
    ) -> Sequence[PromptUpdate]:
        token = audio_token_id(self.info.get_hf_config())
        lengths = out_mm_kwargs.get_data()["audio_num_tokens"]

        def placeholders(item: int) -> list[int]:
            return [token] * int(lengths[item])

        return [PromptReplacement(modality="audio", target=[token], replacement=placeholders)]


def weights_mapper(decoder: DecoderKind) -> WeightsMapper:
    """Return where vLLM's decoder has the tensors of all formats with it; audio's are left out."""
    names: dict[str, str | None] = {}
    for one in (a for a in ARCHITECTURES if a.decoder == decoder):
        for layout in one.layouts:
            names |= dict.fromkeys([*layout.encoder, *layout.projector, *layout.unused])
            names |= {layout.text: "model.", layout.heads[0]: "lm_head."}
    return WeightsMapper(orig_to_new_prefix=names)


def as_decoder(vllm_config: VllmConfig, decoder: DecoderKind) -> VllmConfig:
    """Return the configuration of a model's text decoder."""
    return vllm_config.with_hf_config(text_config(vllm_config.model_config.hf_config), [decoder])


class AudioAsEmbeddings:
    """What is put before vLLM's text decoders."""

    hf_to_vllm_mapper: ClassVar[WeightsMapper]
    model: Any

    @classmethod
    def get_placeholder_str(cls, modality: str, i: int) -> str | None:
        return "<|audio_pad|>"

    def get_language_model(self) -> nn.Module:
        assert isinstance(self, nn.Module)
        return self

    def embed_multimodal(self, **kwargs: object) -> MultiModalEmbeddings:
        """Raise: the connector supplies every window, as admission has checked."""
        raise RuntimeError("audio embeddings must come through the EC connector")

    def embed_input_ids(
        self,
        input_ids: torch.Tensor,
        multimodal_embeddings: MultiModalEmbeddings | None = None,
        *,
        is_multimodal: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        embeds: torch.Tensor = self.model.embed_input_ids(input_ids)
        if is_multimodal is None or not multimodal_embeddings:
            return embeds
        audio = torch.cat(list(multimodal_embeddings)).to(embeds.dtype)
        # The mask is in host memory, so a GPU is not waited for. By row: `masked_scatter` would
        # look at every value, one after the other on a CPU.
        rows = is_multimodal.nonzero().squeeze(1).to(embeds.device, non_blocking=True)
        return embeds.index_copy_(0, rows, audio)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loaded: set[str] = AutoWeightsLoader(self).load_weights(
            weights, mapper=self.hf_to_vllm_mapper
        )
        return loaded


registered = MULTIMODAL_REGISTRY.register_processor(
    DecoderProcessor, info=DecoderInfo, dummy_inputs=DecoderDummyInputs
)


@registered
class AuricleQwen3Decoder(AudioAsEmbeddings, Qwen3ForCausalLM, SupportsMultiModal):
    """The dense text decoder of Qwen3, as in Qwen3-ASR."""

    hf_to_vllm_mapper = weights_mapper("Qwen3ForCausalLM")

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        decoder = as_decoder(vllm_config, "Qwen3ForCausalLM")
        super().__init__(vllm_config=decoder, prefix=maybe_prefix(prefix, ""))


@registered
class AuricleQwen3MoeDecoder(AudioAsEmbeddings, Qwen3MoeForCausalLM, SupportsMultiModal):
    """Qwen3's decoder with a mixture of experts, as in the thinker of Qwen3-Omni."""

    hf_to_vllm_mapper = weights_mapper("Qwen3MoeForCausalLM")

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        decoder = as_decoder(vllm_config, "Qwen3MoeForCausalLM")
        super().__init__(vllm_config=decoder, prefix=maybe_prefix(prefix, ""))


@registered
class AuricleQwen2Decoder(AudioAsEmbeddings, Qwen2ForCausalLM, SupportsMultiModal):
    """Qwen2's decoder, as in Qwen2-Audio."""

    hf_to_vllm_mapper = weights_mapper("Qwen2ForCausalLM")

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        decoder = as_decoder(vllm_config, "Qwen2ForCausalLM")
        super().__init__(vllm_config=decoder, prefix=maybe_prefix(prefix, ""))
