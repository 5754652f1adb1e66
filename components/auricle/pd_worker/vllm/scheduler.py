"""vLLM's scheduler, with two things that a session decoded again and again needs.

Drafts: a decode's hypothesis mostly repeats the one before. Its tokens travel
with the request (`extra_args["draft"]`) and are verified like any speculative
tokens, several in one forward pass; greedy output stays the same.

Reuse: of the KV blocks a decode writes, only those of the prompt's start up to
the last finished window (`extra_args["reusable_tokens"]`) can be found by the
next decode. Only they get a hash; vLLM reuses blocks without one first.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.request import Request

from auricle.pd_worker.vllm.drafts import rest_of_draft

DRAFT = "draft"
REUSABLE_TOKENS = "reusable_tokens"


class SessionScheduler(Scheduler):
    """See the module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        coordinator = self.kv_cache_manager.coordinator
        hash_blocks = coordinator.cache_blocks

        # The one place through which blocks get their hash; vLLM offers no hook there.
        def hash_reusable_blocks(request: Request, num_computed_tokens: int) -> None:
            limit = _parameter(request, REUSABLE_TOKENS)
            hash_blocks(
                request, num_computed_tokens if limit is None else min(limit, num_computed_tokens)
            )

        coordinator.cache_blocks = hash_reusable_blocks

    def update_draft_token_ids(self, draft_token_ids: DraftTokenIds) -> None:
        """The proposer (`NoProposer`) has none: each request brings its own draft."""
        for request_id in draft_token_ids.req_ids:
            request = self.requests.get(request_id)
            if request is None or request.is_finished() or request.is_prefill_chunk:
                continue
            request.spec_token_ids = self._next_draft(request)

    def _next_draft(self, request: Request) -> list[int]:
        draft = _parameter(request, DRAFT)
        if not draft:
            return []
        # Drafted tokens beyond the output's limit would be computed in vain.
        room = request.max_tokens - request.num_output_tokens - 1
        rest = rest_of_draft(draft, request.output_token_ids)
        return rest[: max(0, min(room, self.num_spec_tokens))]


class NoProposer:
    """vLLM's speculative decoding needs a proposer; this one proposes nothing."""

    def __init__(self, vllm_config: Any) -> None:
        """Nothing to load."""

    def propose(
        self, sampled_token_ids: list[list[int]], *args: Any, **kwargs: Any
    ) -> list[list[int]]:
        """No tokens for any request."""
        return [[] for _ in sampled_token_ids]

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Called by vLLM for every proposer."""


def _parameter(request: Request, name: str) -> Any:
    sampling = request.sampling_params
    return None if sampling is None else (sampling.extra_args or {}).get(name)
