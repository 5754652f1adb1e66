"""Several channels in one byte stream: with any chunking, each gets its own samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.frontend.audio.chunks import Deinterleaver

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
    interleaved = Deinterleaver(channels, sample_bytes)
    got = [b""] * channels
    rest = audio
    for size in [*sizes, len(audio)]:
        packet, rest = rest[:size], rest[size:]
        parts = interleaved.split(packet)
        got = [before + part for before, part in zip(got, parts, strict=True)]
    whole = len(audio) // (channels * sample_bytes) * channels * sample_bytes
    samples = np.array(list(audio[:whole]), np.uint8).reshape(-1, channels, sample_bytes)
    assert got == [samples[:, number].tobytes() for number in range(channels)]


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("packet", [1, 2, 3, 7, 4_096])
def test_channels_are_whole_however_packets_are_cut(channels: int, packet: int) -> None:
    samples = np.arange(60, dtype="<i2").reshape(-1, channels)
    data = samples.tobytes()
    splitter = Deinterleaver(channels, 2)
    found = [b""] * channels
    for at in range(0, len(data), packet):
        parts = splitter.split(data[at : at + packet])
        assert len({len(part) for part in parts}) == 1
        found = [whole + part for whole, part in zip(found, parts, strict=True)]
    assert found == [samples[:, channel].tobytes() for channel in range(channels)]


def test_what_is_not_complete_is_held() -> None:
    splitter = Deinterleaver(2, 2)
    assert splitter.split(b"\1\2\3") == [b"", b""]
    assert splitter.split(b"\4\5") == [b"\1\2", b"\3\4"]
    assert splitter.split(b"\6\7\10") == [b"\5\6", b"\7\10"]
