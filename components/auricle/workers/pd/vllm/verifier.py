"""Verifies the drafts of greedy requests without a copy of the logits.

vLLM's rejection sampler makes two copies: of the rows after drafted tokens, and of the rows at the
end of a draft, to process them differently. Here only the largest logit of every row matters.

A request may restrict its tokens by `allowed_token_ids`, `bad_words`, `min_tokens`, penalties or a
`logit_bias`. Then all rows of the batch are processed first, in place, as vLLM processes rows after
drafted tokens. vLLM has no `logit_bias` with drafts; `device_worker.py` adds its processor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.logits_processor import LogitBiasLogitsProcessor, MinTokensLogitsProcessor
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

Rows = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 64  # 39 MB of float32 with Qwen3's vocabulary


class GreedyVerifier(nn.Module):
    """Replaces vLLM's rejection sampler for greedy requests, as all of the PD worker's are.

    vLLM's sampler (`otherwise`) handles other ones, which vLLM tries at start. Log probabilities
    are of the processed logits, as vLLM's `processed_logprobs`.
    """

    def __init__(self, otherwise: Any) -> None:
        super().__init__()
        self._otherwise = otherwise

    def forward(
        self,
        metadata: SpecDecodeMetadata,
        draft_probs: torch.Tensor | None,
        logits: torch.Tensor,
        sampling: SamplingMetadata,
    ) -> SamplerOutput:
        """Return each request's accepted tokens and the next one, as vLLM's sampler does.

        `logits` are (drafted tokens + requests, vocabulary), and are changed if a request restricts
        its tokens.
        """
        if not _greedy(sampling):
            output: SamplerOutput = self._otherwise(metadata, draft_probs, logits, sampling)
            return output
        if _restricted(sampling):
            exact = logits.float() if _computes(sampling) else logits
            logits = self._processed(exact, metadata, sampling)
        best = best_tokens(logits)
        scores = None if sampling.max_num_logprobs is None else of_best(logits, best)
        rows = _rows(metadata, len(best))
        return SamplerOutput(
            sampled_token_ids=accepted(best, metadata, rows),
            logprobs_tensors=None if scores is None else _by_request(scores, best, rows),
        )

    def _processed(
        self, logits: torch.Tensor, metadata: SpecDecodeMetadata, sampling: SamplingMetadata
    ) -> torch.Tensor:
        """Apply each request's restrictions to its rows, given the preceding tokens."""
        rows = [count + 1 for count in metadata.num_draft_tokens]
        for processor in sampling.logitsprocs.non_argmax_invariant:
            if isinstance(processor, LogitBiasLogitsProcessor):
                _add_biases(logits, processor.biases, rows)
        # With one more token in each draft, every row follows a drafted one. The value of that
        # token does not matter, as it precedes no row.
        drafts = [[*draft, PLACEHOLDER_TOKEN_ID] for draft in sampling.spec_token_ids or ()]
        processed: torch.Tensor = self._otherwise.apply_logits_processors(
            logits,
            replace(sampling, spec_token_ids=drafts),
            replace(metadata, num_draft_tokens=rows),
        )
        return processed


def best_tokens(logits: torch.Tensor) -> torch.Tensor:
    """Return the token of each row's largest logit, the first of equal ones, as int32."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        # NumPy's argmax is vectorized, unlike PyTorch's on a CPU.
        return torch.from_numpy(logits.numpy().argmax(axis=-1)).to(torch.int32)
    return logits.argmax(dim=-1).to(torch.int32)


def of_best(logits: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Return the log probability of each row's `best` token, as float32.

    Computed from the sum over a row, without the log probabilities of all tokens. A few rows at a
    time are converted to float32: vLLM has left no memory for a copy of all logits.
    """
    taken = logits.gather(1, best.long().unsqueeze(1)).squeeze(1).float()
    sums = [rows.float().logsumexp(dim=-1) for rows in torch.split(logits, _ROWS_AT_ONCE)]
    return taken - torch.cat(sums)


def accepted(best: torch.Tensor, metadata: SpecDecodeMetadata, rows: Rows) -> torch.Tensor:
    """Return (requests, longest draft + 1) tokens: the accepted draft, the next token,
    placeholders.

    A draft is accepted as far as it equals `best`, which has the requests' rows one after the
    other. Does not synchronize with a GPU.
    """
    tokens = best[_there(rows, best)]
    if metadata.max_spec_len == 0:
        return tokens
    counts = np.asarray(metadata.num_draft_tokens)
    columns = np.arange(metadata.max_spec_len + 1)
    inside = columns < counts[:, None]
    drafted = np.where(inside, (np.cumsum(counts) - counts)[:, None] + columns, 0)
    drafts = metadata.draft_token_ids[_there(drafted, best)]
    held = (drafts == tokens) & _there(inside, best)
    lengths = held.cumprod(dim=1).sum(dim=1, keepdim=True)
    return tokens.masked_fill_(_there(columns, best) > lengths, PLACEHOLDER_TOKEN_ID)


def _rows(metadata: SpecDecodeMetadata, total: int) -> Rows:
    """Return the logits' row, of `total`, for each position of (requests, longest draft + 1).

    Computed on the host from the drafts' lengths. Positions after a draft's end have arbitrary
    rows.
    """
    counts = np.asarray(metadata.num_draft_tokens)
    first = np.cumsum(counts) - counts + np.arange(len(counts))
    columns = np.arange(metadata.max_spec_len + 1)
    rows: Rows = np.minimum(first[:, None] + columns, total - 1)
    return rows


def _by_request(scores: torch.Tensor, best: torch.Tensor, rows: Rows) -> LogprobsTensors:
    """Return the log probability of every position; vLLM skips placeholders.

    The selected token is the likeliest, so its rank is 1.
    """
    positions = _there(rows.reshape(-1), best)
    tokens = best[positions].unsqueeze(1)
    ranks = torch.ones(len(positions), dtype=torch.int32, device=best.device)
    return LogprobsTensors(tokens, scores[positions].unsqueeze(1), ranks)


def _there(values: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).to(like.device, non_blocking=True)


def _add_biases(logits: torch.Tensor, biases: dict[int, dict[int, float]], rows: list[int]) -> None:
    """Add each request's biases, by request and token, to all of its rows."""
    for request, by_token in biases.items():
        first = sum(rows[:request])
        tokens = torch.tensor(list(by_token), device=logits.device)
        added = torch.tensor(list(by_token.values()), device=logits.device)
        logits[first : first + rows[request], tokens] += added


def _greedy(sampling: SamplingMetadata) -> bool:
    """Whether each row's token is the one with the largest processed logit."""
    holder = sampling.thinking_budget_state_holder
    return bool(
        sampling.all_greedy
        and sampling.max_num_logprobs in (None, 0)  # of the selected token only
        and not sampling.logprob_token_ids
        and not (holder is not None and holder.has_tracked_requests())
    )


def _restricted(sampling: SamplingMetadata) -> bool:
    return bool(
        not sampling.no_penalties
        or sampling.allowed_token_ids_mask is not None
        or sampling.bad_words_token_ids
        or any(_in_use(one) for one in sampling.logitsprocs.non_argmax_invariant)
    )


def _computes(sampling: SamplingMetadata) -> bool:
    """Whether restrictions need float32: all but tokens that are simply allowed or forbidden."""
    return bool(
        not sampling.no_penalties
        or any(_in_use(one) for one in sampling.logitsprocs.non_argmax_invariant)
    )


def _in_use(processor: Any) -> bool:
    if isinstance(processor, MinTokensLogitsProcessor):
        return bool(processor.min_toks)
    if isinstance(processor, LogitBiasLogitsProcessor):
        return bool(processor.biases)
    return True
