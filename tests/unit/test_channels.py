"""Interleaved audio is taken apart the same, however it is cut into packets."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.frontend.listening.channels import ChannelSplitter

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("packet", [1, 2, 3, 7, 4_096])
def test_channels_are_whole_however_packets_are_cut(channels: int, packet: int) -> None:
    samples = np.arange(60, dtype="<i2").reshape(-1, channels)
    data = samples.tobytes()
    splitter = ChannelSplitter(channels)
    found = [b""] * channels
    for at in range(0, len(data), packet):
        parts = splitter.push(data[at : at + packet])
        assert len({len(part) for part in parts}) == 1
        found = [whole + part for whole, part in zip(found, parts, strict=True)]
    assert found == [samples[:, channel].tobytes() for channel in range(channels)]
    assert splitter.held == 0


def test_what_is_not_complete_is_held() -> None:
    splitter = ChannelSplitter(2)
    assert splitter.push(b"\1\2\3") == [b"", b""]
    assert splitter.held == 3
    assert splitter.push(b"\4\5") == [b"\1\2", b"\3\4"]
    assert splitter.held == 1
