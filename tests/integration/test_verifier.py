"""Drafts are verified as vLLM's rejection sampler would, from the largest logits alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.integration
VOCABULARY = 5  # so small that drafts hold by chance, and largest logits are equal


@pytest.fixture(scope="module")
def verifier() -> Any:
    """The module. vLLM takes seconds to import, and all of pytest's processes collect this file."""
    from auricle.pd_worker.vllm import verifier

    return verifier


@dataclass
class Sampling:
    """What a batch asks for, as far as the verifier looks."""

    all_greedy: bool = True
    no_penalties: bool = True
    max_num_logprobs: int | None = None
    allowed_token_ids_mask: torch.Tensor | None = None
    bad_words_token_ids: dict[int, list[list[int]]] = field(default_factory=dict)
    logprob_token_ids: dict[int, list[int]] | None = None


class Vllms(torch.nn.Module):
    """In the place of vLLM's sampler."""

    def forward(self, *_: Any) -> str:
        return "vLLM's"


def proposed(drafts: list[list[int]]) -> Any:
    """What vLLM says of a batch."""
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

    return SpecDecodeMetadata.make_dummy(drafts, torch.device("cpu"))


def expected(drafts: list[list[int]], rows: list[list[float]]) -> list[list[int]]:
    """Each request's tokens, one after the other, and placeholders behind them."""
    longest = max(map(len, drafts))
    found, at = [], 0
    for draft in drafts:
        own = rows[at : at + len(draft) + 1]
        at += len(own)
        tokens: list[int] = []
        for position, row in enumerate(own):
            tokens.append(row.index(max(row)))
            if position == len(draft) or tokens[-1] != draft[position]:
                break
        found.append(tokens + [-1] * (longest + 1 - len(tokens)))
    return found


def batch(seed: int) -> tuple[list[list[int]], list[list[float]]]:
    """Drafts of some requests, and the rows of logits that verify them."""
    dice = random.Random(seed)
    drafts = [
        [dice.randrange(VOCABULARY) for _ in range(dice.randrange(seed % 5 + 1))]
        for _ in range(dice.randrange(1, 9))
    ]
    rows = [
        [float(dice.randrange(3)) for _ in range(VOCABULARY)]
        for draft in drafts
        for _ in range(len(draft) + 1)
    ]
    return drafts, rows


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_gets_the_tokens_that_its_requests_would_get_one_by_one(
    verifier: Any, seed: int
) -> None:
    drafts, rows = batch(seed)
    verify = verifier.GreedyVerifier(Vllms())
    output = verify(proposed(drafts), None, torch.tensor(rows), Sampling())
    assert output.sampled_token_ids.tolist() == expected(drafts, rows)
    assert output.sampled_token_ids.dtype == torch.int32


@pytest.mark.parametrize("seed", range(40))
def test_each_token_has_the_log_probability_of_its_own_row(verifier: Any, seed: int) -> None:
    """As vLLM reads them: without the places behind the token that ends a request's part."""
    from vllm.v1.sample.rejection_sampler import RejectionSampler

    drafts, rows = batch(seed)
    verify = verifier.GreedyVerifier(Vllms())
    asked = Sampling(max_num_logprobs=0)
    output = verify(proposed(drafts), None, torch.tensor(rows), asked)
    tokens, found = RejectionSampler.parse_output(
        output.sampled_token_ids, VOCABULARY, logprobs_tensors=output.logprobs_tensors
    )
    assert tokens == [[t for t in one if t >= 0] for one in expected(drafts, rows)]
    assert found is not None
    scores = torch.tensor(rows).log_softmax(dim=-1)
    first = 0
    for number, (draft, own) in enumerate(zip(drafts, tokens, strict=True)):
        told = found.slice_request(number, len(own))
        assert told.logprob_token_ids[:, 0].tolist() == own
        right = [float(scores[first + at, token]) for at, token in enumerate(own)]
        assert told.logprobs[:, 0].tolist() == pytest.approx(right, abs=1e-6)
        first += len(draft) + 1


def test_nobody_pays_for_log_probabilities_that_nobody_asked_for(
    verifier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(verifier, "of_best")
    output = verifier.GreedyVerifier(Vllms())(proposed([[1]]), None, torch.zeros(2, 5), Sampling())
    assert output.logprobs_tensors is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_equal_logits_the_first_counts_as_it_does_for_vllm(
    verifier: Any, dtype: torch.dtype
) -> None:
    logits = torch.randint(0, 3, (64, 1000), generator=torch.Generator().manual_seed(1)).to(dtype)
    logits[0] = -torch.inf
    logits[1, 7] = torch.nan
    assert verifier.best_tokens(logits).tolist() == logits.argmax(dim=-1).tolist()


@pytest.mark.parametrize(
    "other",
    [
        Sampling(all_greedy=False),
        Sampling(no_penalties=False),
        Sampling(max_num_logprobs=1),
        Sampling(max_num_logprobs=0, logprob_token_ids={0: [1]}),
        Sampling(allowed_token_ids_mask=torch.ones(1, dtype=torch.bool)),
        Sampling(bad_words_token_ids={0: [[1]]}),
    ],
)
def test_what_is_not_plainly_greedy_is_left_to_vllm(verifier: Any, other: Sampling) -> None:
    verify = verifier.GreedyVerifier(Vllms())
    assert verify(proposed([[1]]), None, torch.zeros(2, VOCABULARY), other) == "vLLM's"
