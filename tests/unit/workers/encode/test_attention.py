"""The encoder's attention on a GPU, compared with transformers' own on a CPU.

The kernel of `varlen` needs a GPU; on a CPU a plain one replaces it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.workers.encode.attention import Attention, Windows, attention_for
from auricle.workers.encode.windowed import WindowedEncoder
from auricle_testing.checkpoints.other_models import random_qwen3_asr

pytestmark = pytest.mark.unit
# The shapes of the encoders of Qwen3-ASR-0.6B and -1.7B.
SIZES = {
    "0.6b": {"d_model": 896, "encoder_attention_heads": 14, "encoder_ffn_dim": 3584},
    "1.7b": {"d_model": 1024, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096},
}
LENGTHS = [1, 13, 104, 9, 104, 57, 2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["0.6b", "1.7b"])
def checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ModelCheckpoint:
    """Random weights with the published geometry and two layers."""
    path: Path = tmp_path_factory.mktemp(request.param)
    layers = {"encoder_layers": 2, "num_hidden_layers": 2, "downsample_hidden_size": 480}
    random_qwen3_asr(path, audio=SIZES[request.param] | layers)
    return open_checkpoint(path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("attention", ["varlen", "padded"])
def test_all_windows_in_one_kernel_attend_as_one_by_one(
    checkpoint: ModelCheckpoint, attention: Attention, dtype: str
) -> None:
    width = checkpoint.geometry.encoder_d_model
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(length, width, generator=generator) for length in LENGTHS]
    windows = [[one.to(getattr(torch, dtype))] for one in made]
    plain = WindowedEncoder(checkpoint, dtype, "cpu", threads=1).attend(windows)
    other = WindowedEncoder(checkpoint, dtype, "cpu", threads=1, attention=attention).attend(
        windows
    )
    scale = max(float(one.abs().max()) for one in plain)
    most = 1e-4 if dtype == "float32" else 0.02 * scale
    for one, another in zip(plain, other, strict=True):
        assert one.shape == another.shape
        assert float((one - another).abs().max()) <= most


def test_where_windows_lie_is_told_once_a_pass() -> None:
    where = Windows.of([2, 3], "padded", CPU)
    assert where.ends.tolist() == [0, 2, 5]
    assert where.places is not None and where.places.tolist() == [0, 1, 3, 4, 5]
    assert where.real is not None and where.real.tolist() == [
        [[[True, True, False]]],
        [[[True] * 3]],
    ]
    assert Windows.of([2, 3], "varlen", CPU).arguments() == {"max_seqlen": 3}


@pytest.mark.parametrize(
    ("device", "dtype", "best"),
    [
        ("cpu", torch.float32, "per_window"),
        ("cpu", torch.bfloat16, "per_window"),
        ("cuda", torch.bfloat16, "varlen"),
        ("cuda", torch.float16, "varlen"),
        ("cuda", torch.float32, "padded"),
    ],
)
def test_the_device_decides(device: str, dtype: torch.dtype, best: Attention) -> None:
    assert attention_for(torch.device(device), dtype) == best


def test_float32_is_not_rounded_on_a_gpu(checkpoint: ModelCheckpoint) -> None:
    torch.backends.cudnn.allow_tf32 = True
    WindowedEncoder(checkpoint, "float32", "cpu", threads=1)
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32


def test_a_pass_may_be_warmed_up_for_a_gpu(checkpoint: ModelCheckpoint) -> None:
    from auricle.workers.encode import passes as canary

    passes: list[tuple[int, int]] = []

    class OnGpu:
        on_gpu = True

        def prepare(self) -> None:
            assert not passes

        def encode(self, windows: Any) -> list[torch.Tensor]:
            passes.append((len(windows), len(windows[0].frames)))
            return [torch.zeros(1) for _ in windows]

    canary.warm_up(OnGpu(), checkpoint.geometry, 6)  # type: ignore[arg-type]
    assert passes[0] == (1, 800)
    assert {count for count, _ in passes} == {1, 2, 4, 6}
    assert {frames for _, frames in passes} == {24, 48, 72, 800}
