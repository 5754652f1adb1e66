"""Builds vLLM's requests directly, from tokens and windows whose places are known.

vLLM would parse and match every window as multimodal input, in a thread, to come to the same
request. There is nothing for it to find out: each window is a row of placeholders of known
length, and its embeddings come through the connector.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

from vllm import SamplingParams
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.async_llm import AsyncLLM

from auricle.errors import BadRequest
from auricle.landing.placed import PlacedWindow
from auricle.pd_worker.vllm.scheduler import DRAFT, REUSABLE_TOKENS

# Dynamo's mark of a cache salt: its KV router takes a salt without it for a namespace.
_TENANT_SALT = "dynamo-cache-salt:"


class RequestBuilder:
    """Builds the requests of one engine."""

    def __init__(self, llm: AsyncLLM, audio_token: int | None) -> None:
        """Without `audio_token` there are no windows: the engine has a text model."""
        self._max_tokens = int(llm.model_config.max_model_len)
        self._generation = llm.input_processor.generation_config_fields
        self._end = llm.renderer.get_eos_token_id()
        self._audio_token = audio_token
        self._greedy: dict[tuple[int, ...], SamplingParams] = {}

    def build(
        self,
        request_id: str,
        head: Sequence[int],
        windows: Sequence[PlacedWindow],
        tail: Sequence[int],
        sampling: SamplingParams,
        *,
        priority: int,
        tenant: str,
    ) -> EngineCoreRequest:
        """Return the request of head · windows · tail; raises BadRequest if it is too long."""
        tokens, features = list(head), []
        for window in windows:
            if self._audio_token is None:
                raise BadRequest("a text model takes no windows")
            place = PlaceholderRange(offset=len(tokens), length=window.length)
            # Without data: the connector supplies the embeddings of this identifier.
            features.append(
                MultiModalFeatureSpec(None, "audio", window.key, place, mm_hash=window.key)
            )
            tokens += [self._audio_token] * window.length
        tokens += tail
        if len(tokens) >= self._max_tokens:  # checked by nobody else on this way
            raise BadRequest(
                f"a prompt of {len(tokens)} tokens leaves no room for output "
                f"in max_model_len {self._max_tokens}"
            )
        return EngineCoreRequest(
            request_id=request_id,
            prompt_token_ids=tokens,
            mm_features=features,
            sampling_params=sampling,
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=_TENANT_SALT + tenant,
            data_parallel_rank=None,
            priority=priority,
        )

    def sampling(
        self,
        stop_tokens: Sequence[int],
        max_tokens: int,
        windows: Sequence[PlacedWindow],
        draft: Sequence[int],
        reusable_tokens: int | None,
        *,
        logprobs: bool = False,
    ) -> SamplingParams:
        """Return the parameters of a greedy request that is answered once, at its end.

        With `logprobs` the answer has that of each of its tokens.
        """
        rows = [[w.key, w.slot, w.generation, w.length] for w in windows]
        greedy = copy.copy(self._stopping_at(tuple(stop_tokens)))
        greedy.max_tokens = max_tokens
        greedy.logprobs = 0 if logprobs else None  # of further tokens than the one taken
        greedy.extra_args = {
            "ec_transfer_params": {"windows": rows},
            DRAFT: list(draft),
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
