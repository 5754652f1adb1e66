"""Several channels in one stream of bytes: however it is cut, each gets its own samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.frontend.listening.interleaved import Interleaved

pytestmark = pytest.mark.unit


@given(
    st.integers(1, 5),
    st.sampled_from([1, 2]),
    st.lists(st.integers(0, 40), max_size=12),
    st.binary(max_size=200),
)
def test_each_channel_gets_its_own_whole_samples(
    channels: int, sample_bytes: int, sizes: list[int], audio: bytes
) -> None:
    interleaved = Interleaved(channels, sample_bytes)
    got = [b""] * channels
    rest = audio
    for size in [*sizes, len(audio)]:
        packet, rest = rest[:size], rest[size:]
        parts = interleaved.split(packet)
        got = [before + part for before, part in zip(got, parts, strict=True)]
    whole = len(audio) // (channels * sample_bytes) * channels * sample_bytes
    samples = np.array(list(audio[:whole]), np.uint8).reshape(-1, channels, sample_bytes)
    assert got == [samples[:, number].tobytes() for number in range(channels)]
