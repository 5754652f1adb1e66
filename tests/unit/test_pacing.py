"""A session's cadence under load."""

import pytest

from auricle.processor.pacing import Pacing

pytestmark = pytest.mark.unit


def test_cadence_stretches_with_load_and_comes_back() -> None:
    pacing = Pacing()
    strides = []
    for load in (0.0, 0.49, 0.5, 0.8, 0.95, 0.3):
        pacing.decoded(load)
        strides.append(pacing.stride)
    assert strides == [1, 1, 2, 3, 4, 1]


def test_a_refusal_stretches_it_most() -> None:
    pacing = Pacing()
    pacing.refused()
    assert pacing.stride == 4
