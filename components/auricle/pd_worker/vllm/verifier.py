"""Verifies the drafts of greedy requests without a copy of the logits.

vLLM's rejection sampler makes two of them: of the rows that follow drafted tokens, and of those
that end a draft, to process each kind in its own way. Nothing is processed here, and then the
largest logit of every row is all that matters, whichever kind it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from vllm.v1.outputs import SamplerOutput
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata


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
        tokens = accepted(best_tokens(logits), metadata)
        return SamplerOutput(sampled_token_ids=tokens, logprobs_tensors=None)


def best_tokens(logits: torch.Tensor) -> torch.Tensor:
    """Return the token of each row's largest logit, the first of equal ones, as int32."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        # NumPy looks at many values at a time, PyTorch's `argmax` on a CPU at one.
        return torch.from_numpy(logits.numpy().argmax(axis=-1)).to(torch.int32)
    return logits.argmax(dim=-1).to(torch.int32)


def accepted(best: torch.Tensor, metadata: SpecDecodeMetadata) -> torch.Tensor:
    """Return (requests, longest draft + 1) tokens: those of the draft that are the `best`, the
    first that is not or that follows the draft, and placeholders.

    `best` has a request's rows one after the other. A GPU is not waited for.
    """
    if metadata.max_spec_len == 0:
        return best.unsqueeze(1)
    # Where everything lies is known without the device: from the lengths of the drafts.
    counts = np.asarray(metadata.num_draft_tokens)
    columns = np.arange(metadata.max_spec_len + 1)
    drafted = (np.cumsum(counts) - counts)[:, None] + columns
    inside = columns < counts[:, None]
    rows = np.minimum(drafted + np.arange(len(counts))[:, None], len(best) - 1)

    def there(values: Any) -> torch.Tensor:
        return torch.from_numpy(values).to(best.device, non_blocking=True)

    tokens = best[there(rows)]
    drafts = metadata.draft_token_ids[there(np.where(inside, drafted, 0))]
    held = (drafts == tokens) & there(inside)
    lengths = held.cumprod(dim=1).sum(dim=1, keepdim=True)
    return tokens.masked_fill_(there(columns) > lengths, PLACEHOLDER_TOKEN_ID)


def _plainly_greedy(sampling: Any) -> bool:
    return bool(
        sampling.all_greedy
        and sampling.no_penalties
        and sampling.max_num_logprobs is None
        and sampling.allowed_token_ids_mask is None
        and not sampling.bad_words_token_ids
    )
