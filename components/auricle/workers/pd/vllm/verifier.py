"""Verifies the drafts of greedy requests without a copy of the logits.

vLLM's rejection sampler makes two of them: of the rows that follow drafted tokens, and of those
that end a draft, to process each kind in its own way. Here the largest logit of every row is all
that matters, whichever kind it is.

A request may restrict its tokens: by `allowed_token_ids`, `bad_words`, `min_tokens`, penalties or a
`logit_bias`. Then all rows of the batch are processed first, in place, as vLLM processes those that
follow drafted tokens. vLLM itself has no `logit_bias` with drafts; its processor for it is added to
those of the batch (`device_worker.py`).
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


class GreedyVerifier(nn.Module):
    """Takes the place of vLLM's rejection sampler, which still has what is not greedy.

    That is what vLLM tries out when it starts; the PD worker's requests are all greedy. Log
    probabilities are of the processed logits, as vLLM's `processed_logprobs`.
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
        """Return each request's accepted tokens and the one after, as vLLM's sampler does.

        `logits` are (drafted tokens + requests, vocabulary), and are changed where a request
        restricts its tokens.
        """
        if not _greedy(sampling):
            output: SamplerOutput = self._otherwise(metadata, draft_probs, logits, sampling)
            return output
        if _restricted(sampling):
            logits = self._processed(logits.float(), metadata, sampling)
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
        """Apply to each row what its request restricts, given the tokens that precede it."""
        rows = [count + 1 for count in metadata.num_draft_tokens]
        for processor in sampling.logitsprocs.non_argmax_invariant:
            if isinstance(processor, LogitBiasLogitsProcessor):
                _add_biases(logits, processor.biases, rows)
        # With one token more in each draft every row follows a drafted one. What that token is
        # does not matter: no row follows it.
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
        # NumPy looks at many values at a time, PyTorch's `argmax` on a CPU at one.
        return torch.from_numpy(logits.numpy().argmax(axis=-1)).to(torch.int32)
    return logits.argmax(dim=-1).to(torch.int32)


def of_best(logits: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Return the log probability of each row's `best` token, as float32.

    The sum over a row is all that it takes, without a copy of the log probabilities of all tokens.
    """
    taken = logits.gather(1, best.long().unsqueeze(1)).squeeze(1).float()
    return taken - logits.float().logsumexp(dim=-1)


def accepted(best: torch.Tensor, metadata: SpecDecodeMetadata, rows: Rows) -> torch.Tensor:
    """Return (requests, longest draft + 1) tokens: those of the draft that are the `best`, the
    first that is not or that follows the draft, and placeholders.

    `best` has a request's rows one after the other. A GPU is not waited for.
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
    """Return the logits' row of each place of (requests, longest draft + 1), of `total` rows.

    Known without the device: from the lengths of the drafts. Places behind a draft's end have the
    row of another one.
    """
    counts = np.asarray(metadata.num_draft_tokens)
    first = np.cumsum(counts) - counts + np.arange(len(counts))
    columns = np.arange(metadata.max_spec_len + 1)
    rows: Rows = np.minimum(first[:, None] + columns, total - 1)
    return rows


def _by_request(scores: torch.Tensor, best: torch.Tensor, rows: Rows) -> LogprobsTensors:
    """Return the log probability of every place, for vLLM, which leaves out the placeholders'.

    The token that is taken is the likeliest, so its rank is 1.
    """
    places = _there(rows.reshape(-1), best)
    tokens = best[places].unsqueeze(1)
    ranks = torch.ones(len(places), dtype=torch.int32, device=best.device)
    return LogprobsTensors(tokens, scores[places].unsqueeze(1), ranks)


def _there(values: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(values).to(like.device, non_blocking=True)


def _add_biases(logits: torch.Tensor, biases: dict[int, dict[int, float]], rows: list[int]) -> None:
    """Add each request's biases, by its number and token, to all of its rows."""
    for request, by_token in biases.items():
        first = sum(rows[:request])
        tokens = torch.tensor(list(by_token), device=logits.device)
        added = torch.tensor(list(by_token.values()), device=logits.device)
        logits[first : first + rows[request], tokens] += added


def _greedy(sampling: SamplingMetadata) -> bool:
    """Whether each row's token is that of its largest logit, after processing."""
    holder = sampling.thinking_budget_state_holder
    return bool(
        sampling.all_greedy
        and sampling.max_num_logprobs in (None, 0)  # of no other token than the one that is taken
        and not sampling.logprob_token_ids
        and not (holder is not None and holder.has_tracked_requests())
    )


def _restricted(sampling: SamplingMetadata) -> bool:
    """Whether a request of the batch restricts its tokens."""
    return bool(
        not sampling.no_penalties
        or sampling.allowed_token_ids_mask is not None
        or sampling.bad_words_token_ids
        or any(_in_use(one) for one in sampling.logitsprocs.non_argmax_invariant)
    )


def _in_use(processor: Any) -> bool:
    if isinstance(processor, MinTokensLogitsProcessor):
        return bool(processor.min_toks)
    if isinstance(processor, LogitBiasLogitsProcessor):
        return bool(processor.biases)
    return True
