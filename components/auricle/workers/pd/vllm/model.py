"""Text decoders as vLLM models whose audio arrives as embeddings.

Each is vLLM's decoder with the mixin `AudioAsEmbeddings`, and reads a checkpoint of any
architecture with that decoder. It has no audio tower: each audio item of the prompt is one encoder
window of `audio_num_tokens` embeddings, which the EC connector supplies (`connector.py`). Plain
RoPE is exact, as positions of audio and text are consecutive, so M-RoPE is not configured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    BaseMultiModalProcessor,
    BaseProcessingInfo,
    PromptReplacement,
    PromptUpdate,
)

from auricle.checkpoints.architectures import ARCHITECTURES
from auricle.checkpoints.architectures.base import DecoderKind
from auricle.checkpoints.files import read_config
from auricle.workers.pd.vllm.inputs import NoDummyInputs


def text_config(config: Any) -> Any:
    """Return the decoder's config in either checkpoint format."""
    return getattr(config, "thinker_config", config).text_config


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
        # vLLM reserves room for one item in its encoder cache.
        geometry = read_config(Path(self.ctx.model_config.model)).geometry
        return {"audio": geometry.window_embeddings}

    def get_data_parser(self) -> MultiModalDataParser:
        return WindowParser(
            expected_hidden_size=text_config(self.get_hf_config()).hidden_size,
            allow_missing_mm_embeddings=self.allow_missing_mm_embeddings,
        )


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
        config = self.info.get_hf_config()
        token = int(getattr(config, "thinker_config", config).audio_token_id)
        lengths = out_mm_kwargs.get_data()["audio_num_tokens"]

        def placeholders(item: int) -> list[int]:
            return [token] * int(lengths[item])

        return [PromptReplacement(modality="audio", target=[token], replacement=placeholders)]


def weights_mapper(decoder: DecoderKind) -> WeightsMapper:
    """Map the tensor names of all formats with this decoder to vLLM's, without audio modules."""
    names: dict[str, str | None] = {}
    for one in (a for a in ARCHITECTURES if a.decoder == decoder):
        for layout in one.layouts:
            names |= dict.fromkeys([*layout.encoder, *layout.projector, *layout.unused])
            names |= {layout.text: "model.", layout.heads[0]: "lm_head."}
    return WeightsMapper(orig_to_new_prefix=names)


class AudioAsEmbeddings:
    """A mixin for vLLM's text decoders whose audio arrives as embeddings."""

    decoder: ClassVar[DecoderKind]
    hf_to_vllm_mapper: ClassVar[WeightsMapper]
    model: Any

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        text = text_config(vllm_config.model_config.hf_config)
        own_config = vllm_config.with_hf_config(text, [self.decoder])
        super().__init__(vllm_config=own_config, prefix=maybe_prefix(prefix, ""))  # type: ignore[call-arg]

    @classmethod
    def get_placeholder_str(cls, modality: str, i: int) -> str | None:
        return "<|audio_pad|>"

    def get_language_model(self) -> nn.Module:
        assert isinstance(self, nn.Module)
        return self

    def embed_multimodal(self, **kwargs: object) -> MultiModalEmbeddings:
        """Raise: the connector supplies every window."""
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
        # The mask is in host memory, so this does not synchronize with a GPU. By row, as
        # `masked_scatter` handles single values, sequentially on a CPU.
        rows = is_multimodal.nonzero().squeeze(1).to(embeds.device, non_blocking=True)
        return embeds.index_copy_(0, rows, audio)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loaded: set[str] = AutoWeightsLoader(self).load_weights(
            weights, mapper=self.hf_to_vllm_mapper
        )
        return loaded


def audio_decoder(decoder: DecoderKind) -> Callable[[type[AudioAsEmbeddings]], Any]:
    """Return the class decorator that registers our class of vLLM's `decoder`."""
    register = MULTIMODAL_REGISTRY.register_processor(
        DecoderProcessor, info=DecoderInfo, dummy_inputs=NoDummyInputs
    )

    def decorate(cls: type[AudioAsEmbeddings]) -> Any:
        cls.decoder, cls.hf_to_vllm_mapper = decoder, weights_mapper(decoder)
        return register(cls)

    return decorate


@audio_decoder("Qwen3ForCausalLM")
class AuricleQwen3Decoder(AudioAsEmbeddings, Qwen3ForCausalLM, SupportsMultiModal):
    """The dense text decoder of Qwen3, as in Qwen3-ASR."""


@audio_decoder("Qwen3MoeForCausalLM")
class AuricleQwen3MoeDecoder(AudioAsEmbeddings, Qwen3MoeForCausalLM, SupportsMultiModal):
    """Qwen3's decoder with a mixture of experts, as in the thinker of Qwen3-Omni."""


@audio_decoder("Qwen2ForCausalLM")
class AuricleQwen2Decoder(AudioAsEmbeddings, Qwen2ForCausalLM, SupportsMultiModal):
    """Qwen2's decoder, as in Qwen2-Audio."""
