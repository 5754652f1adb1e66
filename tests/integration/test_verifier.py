"""Drafts are verified as if their requests had been decoded token by token, without them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.integration
VOCABULARY = 5  # so small that drafts hold by chance, and largest logits are equal


@pytest.fixture(scope="module")
def verifier() -> Any:
    """The module. vLLM takes seconds to import, and every pytest process collects this file."""
    from auricle.workers.pd.vllm import verifier

    return verifier


@dataclass
class Sampling:
    """The sampling parameters of a batch that the verifier reads."""

    all_greedy: bool = True
    no_penalties: bool = True
    max_num_logprobs: int | None = None
    allowed_token_ids_mask: torch.Tensor | None = None
    bad_words_token_ids: dict[int, list[list[int]]] = field(default_factory=dict)
    logprob_token_ids: dict[int, list[int]] | None = None
    thinking_budget_state_holder: Any = None
    spec_token_ids: list[list[int]] | None = None
    logitsprocs: Any = field(default_factory=lambda: SimpleNamespace(non_argmax_invariant=[]))


class Vllms(torch.nn.Module):
    """Replaces vLLM's sampler."""

    def forward(self, *_: Any) -> str:
        return "vLLM's"


def proposed(drafts: list[list[int]]) -> Any:
    """vLLM's metadata of a batch."""
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

    return SpecDecodeMetadata.make_dummy(drafts, torch.device("cpu"))


def expected(drafts: list[list[int]], rows: list[list[float]]) -> list[list[int]]:
    """Each request's tokens in sequence, followed by placeholders."""
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
    """In vLLM's layout, without the positions after the token that ends a request's part."""
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


class LargestCopy(TorchDispatchMode):
    """Records the most values of float32 that an operation has made from bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.values = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        made = func(*args, **(kwargs or {}))
        if "_to_copy" in str(func) and made.dtype == torch.float32:
            self.values = max(self.values, made.numel())
        return made


def test_logits_of_a_large_batch_are_never_copied_as_a_whole(verifier: Any) -> None:
    """vLLM has taken the memory for other things."""
    logits = torch.randn(300, 500, generator=torch.Generator().manual_seed(1)).bfloat16()
    with LargestCopy() as copies:
        scores = verifier.of_best(logits, best := verifier.best_tokens(logits))
    right = logits.float().log_softmax(dim=-1).gather(1, best.long()[:, None])[:, 0]
    torch.testing.assert_close(scores, right, atol=1e-5, rtol=0)
    assert 0 < copies.values <= 64 * 500

    class Forbids(Vllms):
        def apply_logits_processors(self, logits: torch.Tensor, *_: Any) -> torch.Tensor:
            assert logits.dtype == torch.bfloat16
            return logits.index_fill_(1, torch.tensor([3]), -torch.inf)

    allowed = Sampling(
        allowed_token_ids_mask=torch.zeros(1, 500, dtype=torch.bool),
    )
    allowed.spec_token_ids = [[1] * 299]
    logits[:, 3] = 100
    with LargestCopy() as copies:
        output = verifier.GreedyVerifier(Forbids())(proposed([[1] * 299]), None, logits, allowed)
    assert copies.values == 0
    assert 3 not in output.sampled_token_ids.tolist()[0]


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
        Sampling(max_num_logprobs=1),
        Sampling(
            thinking_budget_state_holder=SimpleNamespace(has_tracked_requests=lambda: True),
        ),
        Sampling(max_num_logprobs=0, logprob_token_ids={0: [1]}),
    ],
)
def test_what_is_not_greedy_or_wants_more_log_probabilities_is_left_to_vllm(
    verifier: Any, other: Sampling
) -> None:
    verify = verifier.GreedyVerifier(Vllms())
    assert verify(proposed([[1]]), None, torch.zeros(2, VOCABULARY), other) == "vLLM's"


@dataclass
class Constrained:
    """A request with some output, whose next token may not be the one with the largest logit."""

    prompt: list[int]
    output: list[int]
    draft: list[int]
    parameters: dict[str, Any]


def constrained(dice: random.Random) -> Constrained:
    """A random request with one kind of constraint, or with several kinds at once."""
    some = partial(dice.sample, range(VOCABULARY))
    kinds: list[dict[str, Any]] = [
        {"allowed_token_ids": some(2)},
        {"logit_bias": {token: dice.choice([-100.0, -1.0, 1.0]) for token in some(3)}},
        {"min_tokens": dice.randrange(1, 6), "stop_token_ids": some(2)},
        {"_bad_words_token_ids": [some(1), some(2)]},
        {"repetition_penalty": 1.5},
        {"presence_penalty": 1.5, "frequency_penalty": -0.5},
    ]
    parameters: dict[str, Any] = {}
    for kind in dice.sample(kinds, dice.randrange(4)):
        parameters |= kind
    tokens = partial(dice.choices, range(VOCABULARY))
    return Constrained(
        tokens(k=3), tokens(k=dice.randrange(3)), tokens(k=dice.randrange(5)), parameters
    )


def in_vllm(requests: list[Constrained]) -> Any:
    """vLLM's own metadata of a batch with these requests, in this order."""
    from vllm import SamplingParams
    from vllm.v1.sample.logits_processor import (
        LogitBiasLogitsProcessor,
        LogitsProcessors,
        MinTokensLogitsProcessor,
    )
    from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

    device = torch.device("cpu")
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8))
    processors = LogitsProcessors(
        [
            MinTokensLogitsProcessor(config, device, False),  # type: ignore[arg-type]
            LogitBiasLogitsProcessor(config, device, False),
        ]
    )
    batch = InputBatch(
        max_num_reqs=8, max_model_len=64, max_num_batched_tokens=64, device=device,
        vocab_size=VOCABULARY, block_sizes=[16], max_num_blocks_per_req=[4], num_spec_tokens=4,
        logitsprocs=processors,
    )  # fmt: skip
    drafts = {}
    for number, request in enumerate(requests):
        parameters = dict(request.parameters)
        words = parameters.pop("_bad_words_token_ids", None)
        sampling = SamplingParams(temperature=0.0, logprobs=0, **parameters)
        sampling._bad_words_token_ids = words
        sampling._all_stop_token_ids = set(parameters.get("stop_token_ids", ()))
        state = CachedRequestState(
            req_id=str(number), prompt_token_ids=request.prompt, mm_features=[],
            sampling_params=sampling, generator=None, block_ids=([],),
            num_computed_tokens=0, output_token_ids=request.output,
        )  # fmt: skip
        batch.add_request(state)
        drafts[str(number)] = request.draft
        batch.update_req_spec_token_ids(state, drafts)
    batch.refresh_metadata()
    return batch.sampling_metadata


@pytest.mark.parametrize("seed", range(60))
def test_what_a_request_may_have_is_that_whether_it_is_drafted_or_not(
    verifier: Any, seed: int
) -> None:
    """Each token and its log probability are vLLM's own after the preceding tokens."""
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler

    dice = random.Random(seed)
    requests = [constrained(dice) for _ in range(dice.randrange(1, 8))]
    requests[0].draft = requests[0].draft or [0]
    drafts = [request.draft for request in requests]
    count = sum(len(draft) + 1 for draft in drafts)
    logits = torch.randn((count, VOCABULARY), generator=torch.Generator().manual_seed(seed))
    plain = Sampler(logprobs_mode="processed_logprobs")
    right, scores, at = [], [], 0
    for request in requests:
        tokens: list[int] = []
        for row in logits[at : at + len(request.draft) + 1]:
            so_far = [*request.output, *tokens]
            alone = Constrained(request.prompt, so_far, [], request.parameters)
            taken = plain(row[None].clone(), in_vllm([alone]))
            tokens.append(int(taken.sampled_token_ids))
            scores.append(float(taken.logprobs_tensors.logprobs[0, 0]))
            if tokens != request.draft[: len(tokens)]:
                break
        at += len(request.draft) + 1
        right.append(tokens)
    verify = verifier.GreedyVerifier(RejectionSampler(plain))
    output = verify(proposed(drafts), None, logits.clone(), in_vllm(requests))
    found, told = RejectionSampler.parse_output(
        output.sampled_token_ids, VOCABULARY, logprobs_tensors=output.logprobs_tensors
    )
    assert found == right
    assert told is not None
    # NaN where no token is allowed.
    assert told.logprobs[:, 0].tolist() == pytest.approx(scores, abs=1e-5, nan_ok=True)
    assert told.sampled_token_ranks.tolist() == [1] * len(scores)
