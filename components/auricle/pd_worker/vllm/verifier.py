"""Verifies the drafts of greedy requests without a copy of the logits.

vLLM's rejection sampler makes two of them: of the rows that follow drafted tokens, and of those
that end a draft, to process each kind in its own way. Nothing is processed here, and then the
largest logit of every row is all that matters, whichever kind it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

Rows = npt.NDArray[np.int64]


class GreedyVerifier(nn.Module):
    """Takes the place of vLLM's rejection sampler, which still has what is not plainly greedy.

    That is what vLLM tries out when it starts; the PD worker's requests are all greedy.
    """

    def __init__(self, otherwise: nn.Module) -> None:
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

        `logits` are (drafted tokens + requests, vocabulary).
        """
        if not _plainly_greedy(sampling):
            output: SamplerOutput = self._otherwise(metadata, draft_probs, logits, sampling)
            return output
        best = best_tokens(logits)
        scores = None if sampling.max_num_logprobs is None else of_best(logits, best)
        rows = _rows(metadata, len(best))
        return SamplerOutput(
            sampled_token_ids=accepted(best, metadata, rows),
            logprobs_tensors=None if scores is None else _by_request(scores, best, rows),
        )


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


def _plainly_greedy(sampling: Any) -> bool:
    return bool(
        sampling.all_greedy
        and sampling.no_penalties
        and sampling.max_num_logprobs in (None, 0)  # of no other token than the one that is taken
        and not sampling.logprob_token_ids
        and sampling.allowed_token_ids_mask is None
        and not sampling.bad_words_token_ids
    )
