"""Conv outputs cached by content, with a bounded number of entries."""

import pytest
import torch

from auricle.workers.encode.worker import ConvCache

pytestmark = pytest.mark.unit


def output(value: float) -> torch.Tensor:
    return torch.full((2, 3), value)


def test_the_least_recently_used_goes_first() -> None:
    cache = ConvCache(2)
    cache.keep([("a", output(1)), ("b", output(2))])
    assert cache.find("a") is not None
    cache.keep([("c", output(3))])
    assert (cache.find("b"), len(cache)) == (None, 2)
    kept = cache.find("a")
    assert kept is not None and kept[0, 0] == 1


def test_what_is_kept_again_counts_as_used() -> None:
    cache = ConvCache(2)
    cache.keep([("a", output(1)), ("b", output(2)), ("a", output(1)), ("c", output(3))])
    assert cache.find("a") is not None
    assert cache.find("b") is None
