"""The audio encoder in two halves equals one pass over the whole; its FLOPs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from auricle.checkpoints.files import open_checkpoint
from auricle.workers.encode.cost import cost_of
from auricle.workers.encode.encoder import MelBlock, MelWindow
from auricle.workers.encode.windowed import WindowedEncoder
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
CHECKPOINT = open_checkpoint(ROOT / "models/demo")
FLOOR = -6.0


@pytest.fixture(scope="module")
def encoder() -> WindowedEncoder:
    return WindowedEncoder(CHECKPOINT, "float32", "cpu", threads=1)


def mel(frames: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-8, 2, (frames, 128)).astype(np.float32)


def test_windows_of_any_length_side_by_side_are_encoded_as_if_alone(
    encoder: WindowedEncoder,
) -> None:
    windows = [MelWindow(mel(n, n), FLOOR) for n in (1, 64, 100, 164, 390, 799, 800)]
    together = encoder.encode(windows)
    for window, embeddings in zip(windows, together, strict=True):
        (alone,) = encoder.encode([window])
        assert len(embeddings) == CHECKPOINT.geometry.embeddings(len(window.frames))
        torch.testing.assert_close(embeddings, alone, atol=1e-4, rtol=0)


def test_seconds_convolved_earlier_give_the_same_window(encoder: WindowedEncoder) -> None:
    frames = mel(550, 0)
    (at_once,) = encoder.encode([MelWindow(frames, FLOOR)])
    outputs = [
        encoder.convolve([MelBlock(frames[start:end], FLOOR)])[0]
        for start, end in pairwise([0, 100, 200, 300, 400, 500, 550])
    ]
    (in_steps,) = encoder.attend([outputs])
    torch.testing.assert_close(in_steps, at_once, atol=1e-4, rtol=0)


@pytest.mark.parametrize("frames", [1, 8, 9, 36, 63, 64, 65, 92, 93, 99])
def test_a_short_block_is_filled_no_further_than_its_embeddings_need(
    encoder: WindowedEncoder, frames: int
) -> None:
    block = MelBlock(mel(frames, frames), FLOOR)
    (short,) = encoder.convolve([block])
    filled = encoder._convolve([block], 100)[0, : len(short)]
    # Values are around 30 here; one row too few would change them by more than 1.
    torch.testing.assert_close(short, filled, atol=1e-4, rtol=0)


@pytest.mark.parametrize("frames", [100, 364, 800])
def test_the_cost_is_what_torch_counts(encoder: WindowedEncoder, frames: int) -> None:
    cost = cost_of(CHECKPOINT)
    blocks = [min(100, frames - at) for at in range(0, frames, 100)]
    # torch counts only the products of the plain attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        encoder.encode([MelWindow(mel(frames, 1), FLOOR)])
    embeddings = CHECKPOINT.geometry.embeddings(frames)
    expected = cost.convs(blocks) + cost.window(embeddings)
    assert counter.get_total_flops() == expected
