"""Builds vLLM's requests directly from tokens and windows.

vLLM would parse and match every window as multimodal input, in a thread, with the same result: each
window is a row of placeholders of known length, and the connector supplies its embeddings.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import torch
from vllm import SamplingParams
from vllm.multimodal.inputs import (
    MultiModalBatchedField,
    MultiModalFeatureSpec,
    MultiModalFieldElem,
    MultiModalKwargsItem,
    PlaceholderRange,
)
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.async_llm import AsyncLLM

from auricle.checkpoints.architectures.base import Audio
from auricle.core.errors import BadRequest
from auricle.embeddings.slots import SlotRef
from auricle.workers.pd.engine import GenerateRequest
from auricle.workers.pd.vllm.connector import SLOTS
from auricle.workers.pd.vllm.scheduler import DRAFT, REUSABLE_TOKENS

# Dynamo's prefix of a cache salt; without it, its KV router would take the salt for a namespace.
_TENANT_SALT = "dynamo-cache-salt:"


class RequestBuilder:
    """Builds the requests of one engine."""

    def __init__(self, llm: AsyncLLM, audio: Audio, audio_token: int | None) -> None:
        """`audio_token` is the placeholder of embeddings in prompts; None for a text model, or a
        decoder with cross-attention.
        """
        self._max_tokens = int(llm.model_config.max_model_len)
        self._generation = llm.input_processor.generation_config_fields
        self._end = llm.renderer.get_eos_token_id()
        self._attends, self._audio_token = audio == "cross_attention", audio_token
        self._greedy: dict[tuple[int, ...], SamplingParams] = {}

    def build(self, request: GenerateRequest, sampling: SamplingParams) -> EngineCoreRequest:
        """Return vLLM's form of a request; raises BadRequest if it is too long."""
        tokens = list(request.head)
        if self._attends:
            features = [_attended(request.windows)]
        else:
            features = [self._in_prompt(window, tokens) for window in request.windows]
        tokens += request.tail
        if len(tokens) >= self._max_tokens:  # vLLM does not check it here
            raise BadRequest(
                f"a prompt of {len(tokens)} tokens leaves no room for output "
                f"in max_model_len {self._max_tokens}"
            )
        return EngineCoreRequest(
            request_id=request.request_id,
            prompt_token_ids=tokens,
            mm_features=features,
            sampling_params=sampling,
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=_TENANT_SALT + request.tenant,
            data_parallel_rank=None,
            priority=request.priority,
        )

    def _in_prompt(self, window: SlotRef, tokens: list[int]) -> MultiModalFeatureSpec:
        """Append a window to the prompt's `tokens`; the connector supplies its embeddings."""
        if self._audio_token is None:
            raise BadRequest("a text model takes no windows")
        place = PlaceholderRange(offset=len(tokens), length=window.length)
        tokens += [self._audio_token] * window.length
        return MultiModalFeatureSpec(None, "audio", window.key, place, mm_hash=window.key)

    def sampling(self, request: GenerateRequest, reusable_tokens: int | None) -> SamplingParams:
        """Return the parameters of a greedy request with a single output at its end."""
        rows = [[w.key, w.slot, w.generation, w.length] for w in request.windows]
        greedy = copy.copy(self._stopping_at(tuple(request.stop_tokens)))
        greedy.max_tokens = request.max_tokens
        greedy.logprobs = 0 if request.logprobs else None  # additional tokens
        greedy.allowed_token_ids = list(request.allowed) or None
        greedy.extra_args = {
            "ec_transfer_params": {"windows": rows},
            DRAFT: list(request.draft),
            REUSABLE_TOKENS: reusable_tokens,
        }
        return greedy

    def _stopping_at(self, stop_tokens: tuple[int, ...]) -> SamplingParams:
        """Return the parameters shared by requests with these stop tokens."""
        if stop_tokens not in self._greedy:
            known = SamplingParams(
                temperature=0.0,
                stop_token_ids=list(stop_tokens),
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            # The checkpoint's own end tokens end the output, too.
            known.update_from_generation_config(self._generation, self._end)
            self._greedy = {stop_tokens: known}
        return self._greedy[stop_tokens]


def _attended(windows: Sequence[SlotRef]) -> MultiModalFeatureSpec:
    """Return the input of a decoder with cross-attention: the slots of its windows.

    It is not in the prompt; its length is the number of cross-attention positions.
    """
    slots = torch.tensor([(w.slot, w.length) for w in windows])
    item = MultiModalKwargsItem(
        {SLOTS: MultiModalFieldElem(slots, MultiModalBatchedField(keep_on_cpu=True))}
    )
    key = windows[0].key
    place = PlaceholderRange(offset=0, length=max(w.length for w in windows))
    return MultiModalFeatureSpec(item, "audio", key, place, mm_hash=key)
