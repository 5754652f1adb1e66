"""Builds vLLM's requests directly, from tokens and windows whose places are known.

vLLM would parse and match every window as multimodal input, in a thread, to come to the same
request. There is nothing for it to find out: each window is a row of placeholders of known
length, and its embeddings come through the connector.
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
from auricle.workers.pd.vllm.cross_attention import PLACES
from auricle.workers.pd.vllm.scheduler import DRAFT, REUSABLE_TOKENS

# Dynamo's mark of a cache salt: its KV router takes a salt without it for a namespace.
_TENANT_SALT = "dynamo-cache-salt:"


class RequestBuilder:
    """Builds the requests of one engine."""

    def __init__(self, llm: AsyncLLM, audio: Audio, audio_token: int | None) -> None:
        """`audio_token` stands for embeddings in prompts. Without it the engine has a text model,
        and takes no windows, or a decoder that attends to them.
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
        if len(tokens) >= self._max_tokens:  # checked by nobody else on this way
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
        """Append a window to the prompt's `tokens`, and return where it is.

        Without data: the connector supplies the embeddings of this identifier.
        """
        if self._audio_token is None:
            raise BadRequest("a text model takes no windows")
        place = PlaceholderRange(offset=len(tokens), length=window.length)
        tokens += [self._audio_token] * window.length
        return MultiModalFeatureSpec(None, "audio", window.key, place, mm_hash=window.key)

    def sampling(self, request: GenerateRequest, reusable_tokens: int | None) -> SamplingParams:
        """Return the parameters of a greedy request that is answered once, at its end."""
        rows = [[w.key, w.slot, w.generation, w.length] for w in request.windows]
        greedy = copy.copy(self._stopping_at(tuple(request.stop_tokens)))
        greedy.max_tokens = request.max_tokens
        greedy.logprobs = 0 if request.logprobs else None  # of further tokens than the one taken
        greedy.allowed_token_ids = list(request.allowed) or None
        greedy.extra_args = {
            "ec_transfer_params": {"windows": rows},
            DRAFT: list(request.draft),
            REUSABLE_TOKENS: reusable_tokens,
        }
        return greedy

    def _stopping_at(self, stop_tokens: tuple[int, ...]) -> SamplingParams:
        """Return what is equal in all requests with these stop tokens, which a worker has once."""
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
    """Return the one input of a decoder that attends to its windows: where they are.

    It has no place in the prompt. Its length is that of the keys and values of cross-attention.
    """
    places = torch.tensor([(w.slot, w.length) for w in windows])
    item = MultiModalKwargsItem(
        {PLACES: MultiModalFieldElem(places, MultiModalBatchedField(keep_on_cpu=True))}
    )
    key = windows[0].key
    place = PlaceholderRange(offset=0, length=max(w.length for w in windows))
    return MultiModalFeatureSpec(item, "audio", key, place, mm_hash=key)
