"""Extends vLLM's scheduler for sessions whose audio is decoded repeatedly.

Drafts: a hypothesis mostly repeats the previous one, whose tokens are sent with the request
(`extra_args["draft"]`). They are verified like speculative tokens, several in one forward pass,
with the same greedy output.

Prefix cache: the next decode can reuse KV blocks only up to the last finished window
(`extra_args["reusable_tokens"]`). Only these get a hash; vLLM evicts blocks without a hash first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.request import Request

# The number of draft tokens that are searched for an output token after a mismatch.
_LOOKAHEAD = 3


def rest_of_draft(draft: Sequence[int], output: Sequence[int]) -> list[int]:
    """Return the draft tokens that may follow `output`.

    On a mismatch, the output token is searched in the next draft tokens (a deletion). Otherwise it
    counts as a substitution, until the next output token shows that it was an insertion.
    """
    at = 0
    replaced = False
    for token in output:
        start = at - 1 if replaced else at
        ahead = list(draft[start : at + 1 + _LOOKAHEAD])
        replaced = token not in ahead and at < len(draft)
        at = start + ahead.index(token) + 1 if token in ahead else min(at + 1, len(draft))
    return list(draft[at:])


DRAFT = "draft"
REUSABLE_TOKENS = "reusable_tokens"


class ReusablePrefix(Scheduler):
    """Limits the prefix cache of a request. Works with both of vLLM's runners."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        coordinator = self.kv_cache_manager.coordinator
        hash_blocks = coordinator.cache_blocks

        # All blocks get their hash here; vLLM has no hook.
        def hash_reusable_blocks(request: Request, num_computed_tokens: int) -> None:
            limit = _parameter(request, REUSABLE_TOKENS)
            hash_blocks(
                request, num_computed_tokens if limit is None else min(limit, num_computed_tokens)
            )

        coordinator.cache_blocks = hash_reusable_blocks


class AsyncSessionScheduler(ReusablePrefix, AsyncScheduler):
    """Schedules a pass during the previous one, without drafts."""


class SessionScheduler(ReusablePrefix):
    """Also verifies each request's draft, with the V1 runner.

    The V2 runner selects the draft tokens of a model on the device.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.num_spec_tokens and self.use_v2_model_runner:
            raise ValueError(
                "vLLM's V2 model runner does not verify given drafts; its V1 runner does"
            )
        if self.scheduler_config.async_scheduling:
            raise ValueError("drafts are verified pass by pass, but async_scheduling is on")
        # KV slots for drafts that are verified with the prompt (below).
        self.num_lookahead_tokens: int = max(
            self.vllm_config.num_lookahead_tokens, self.num_spec_tokens
        )

    def _update_after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        """Add each new request's draft to the last step of its prefill.

        vLLM drafts from the second step on; verifying the given draft with the prompt saves a step.
        """
        room = self.scheduler_config.max_num_batched_tokens
        for new in scheduler_output.scheduled_new_reqs:
            request = self.requests[new.req_id]
            scheduled = scheduler_output.num_scheduled_tokens
            if request.num_computed_tokens + scheduled[new.req_id] < request.num_tokens:
                continue  # the next step has a part of the prompt
            if new.req_id in scheduler_output.scheduled_spec_decode_tokens:
                continue  # vLLM has added it
            room_left = room - scheduler_output.total_num_scheduled_tokens
            draft = self._next_draft(request)[: max(0, room_left)]
            if draft:
                scheduler_output.scheduled_spec_decode_tokens[new.req_id] = draft
                scheduled[new.req_id] += len(draft)
                scheduler_output.total_num_scheduled_tokens += len(draft)
        super()._update_after_schedule(scheduler_output)

    def update_draft_token_ids(self, draft_token_ids: DraftTokenIds) -> None:
        """Give each request the rest of its own draft (`NoProposer` proposes none)."""
        for request_id in draft_token_ids.req_ids:
            request = self.requests.get(request_id)
            if request is None or request.is_finished() or request.is_prefill_chunk:
                continue
            request.spec_token_ids = self._next_draft(request)

    def _next_draft(self, request: Request) -> list[int]:
        draft = _parameter(request, DRAFT)
        if not draft:
            return []
        # Draft tokens beyond the output's limit would be wasted.
        room = request.max_tokens - request.num_output_tokens - 1
        rest = rest_of_draft(draft, request.output_token_ids)
        return rest[: max(0, min(room, self.num_spec_tokens))]


class NoProposer:
    """Proposes nothing: vLLM's speculative decoding requires a proposer."""

    def __init__(self, vllm_config: Any) -> None:
        """`vllm_config` is not used."""

    def propose(
        self, sampled_token_ids: list[list[int]], *args: Any, **kwargs: Any
    ) -> list[list[int]]:
        return [[] for _ in sampled_token_ids]

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load nothing; vLLM calls this for every proposer."""


def _parameter(request: Request, name: str) -> Any:
    sampling = request.sampling_params
    return None if sampling is None else (sampling.extra_args or {}).get(name)
