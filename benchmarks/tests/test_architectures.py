"""How the split path's answers are compared with the stock models'."""

from __future__ import annotations

import zlib

import pytest
import torch

from benchmarks.architectures import Row, difference, figures

pytestmark = pytest.mark.unit


def logits(*tokens: int) -> torch.Tensor:
    """Return the logits of an answer with these tokens, each preferred by 1."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), 8).float()


def test_answers_that_are_the_same_differ_by_rounding_at_most() -> None:
    assert difference(logits(1, 2), logits(1, 2) + 3e-6) == (pytest.approx(3e-6, rel=0.1), None)


@pytest.mark.parametrize(("margin", "tie"), [(2e-5, True), (3e-4, False)])
def test_a_token_that_differs_is_a_tie_only_if_the_logits_agree(margin: float, tie: bool) -> None:
    ours, theirs = logits(1, 2, 5), logits(1, 2, 6)
    ours[1, 3], theirs[1, 3] = 1 - margin / 2, 1 + margin / 2
    apart, found = difference(ours, theirs)
    assert found is not None
    assert (found.at, found.ours, found.theirs, found.tie) == (1, 2, 3, tie)
    # Logits after the first different token belong to different answers.
    assert apart == found.logits == pytest.approx(margin, rel=0.01)
    for one in (found.our_margin, found.their_margin):
        assert one == pytest.approx(margin / 2, rel=0.01)


def row(samples: int, *answers: tuple[torch.Tensor, torch.Tensor]) -> Row:
    """Return the row of a recording with these answers, ours and the stock model's."""
    found = Row(samples, zlib.crc32(bytes(2 * samples)))
    for one, other in answers:
        apart, different = difference(one, other)
        found.answers.append(one.argmax(1).tolist())
        found.logits.append(apart)
        found.embeddings.append(apart / 10)
        found.differences.extend([] if different is None else [different])
        for values in (found.windows, found.split_seconds, found.whole_seconds):
            values.append(1)
    return found


def test_ties_are_counted_apart_from_what_is_wrong() -> None:
    same, other = (logits(1, 2), logits(1, 2)), (logits(1, 2), logits(1, 4))
    near = logits(1, 2), logits(1, 2)
    near[0][1, 3], near[1][1, 3] = 1 - 5e-5, 1 + 3e-5
    found = figures([row(3, same, near), row(5, same, other)])
    assert found["identical_tokens_share"] == 0.5
    assert (found["ties"], found["different_beyond_ties"]) == (1, 1)
    assert found["largest_tie_margin"] == pytest.approx(5e-5, rel=0.01)
    assert (found["decodes"], found["different_answers"]) == (4, 1)
    assert found["max_logit_difference"] == 1 and found["max_embedding_difference"] == 0.1
