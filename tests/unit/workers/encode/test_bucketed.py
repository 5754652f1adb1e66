"""The encoder's recorded passes equal its eager ones.

CUDA graphs need a GPU; here a fake repeats each function on the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import SettingsError
from auricle.workers.encode import attention as attention_module
from auricle.workers.encode.attention import Attention
from auricle.workers.encode.bucketed import (
    BlockBucket,
    BucketedEncoder,
    Buckets,
    Function,
    eager,
)
from auricle.workers.encode.encoder import MelBlock, MelWindow
from auricle.workers.encode.main import encoder_for
from auricle.workers.encode.passes import warm_up
from auricle.workers.encode.windowed import WindowedEncoder, staged
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
CHECKPOINT = open_checkpoint(ROOT / "models/demo")
FLOOR = -6.0
PUBLISHED = Buckets(most_windows=32, window_rows=104, block_frames=100)


class Counting:
    """Counts recordings and replays."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.replayed: list[int] = []

    def __call__(self, function: Function) -> Function:
        recorded, number = eager(function), len(self.functions)
        self.functions.append(function)

        def replay() -> torch.Tensor:
            self.replayed.append(number)
            return recorded()

        return replay


def prepared(attention: Attention, most_windows: int = 4) -> tuple[BucketedEncoder, Counting]:
    recorder = Counting()
    how = (CHECKPOINT, "float32", "cpu", 1, most_windows, recorder, attention)
    encoder = BucketedEncoder(*how)
    encoder.prepare()
    return encoder, recorder


@pytest.fixture(scope="module", params=["varlen", "padded"])
def recorded(request: pytest.FixtureRequest) -> tuple[BucketedEncoder, Counting]:
    return prepared(request.param)


@pytest.fixture(scope="module")
def plain() -> WindowedEncoder:
    return WindowedEncoder(CHECKPOINT, "float32", "cpu", threads=1)


def windows(*frames: int) -> list[MelWindow]:
    random = np.random.default_rng(sum(frames))
    return [MelWindow(random.uniform(-8, 2, (n, 128)).astype(np.float32), FLOOR) for n in frames]


def test_what_fills_a_bucket_changes_no_embedding(
    recorded: tuple[BucketedEncoder, Counting], plain: WindowedEncoder
) -> None:
    encoder, recorder = recorded
    # Longer ones first: their rows remain in the memory that the shorter ones' passes share.
    for frames in ((800, 799, 390), (64,), (800,), (1, 64, 100, 164), (28, 128), (8, 8, 800)):
        batch = windows(*frames)
        recorder.replayed.clear()
        for ours, theirs in zip(encoder.encode(batch), plain.encode(batch), strict=True):
            assert ours.shape == theirs.shape
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
        assert recorder.replayed


def test_what_a_pass_returned_outlives_the_next(
    recorded: tuple[BucketedEncoder, Counting],
) -> None:
    encoder, _ = recorded
    block = MelBlock(windows(100)[0].frames, FLOOR)
    outputs, embeddings = encoder.convolve([block]), encoder.encode(windows(100))
    before = [outputs[0].clone(), embeddings[0].clone()]
    encoder.encode(windows(99))
    encoder.encode(windows(92, 100))
    assert torch.equal(outputs[0], before[0])
    assert torch.equal(embeddings[0], before[1])


def test_more_blocks_than_a_bucket_holds_take_several_passes(plain: WindowedEncoder) -> None:
    encoder, recorder = prepared("padded", most_windows=1)
    blocks = [MelBlock(window.frames, FLOOR) for window in windows(*[100] * 5)]
    ours = encoder.convolve(blocks)
    assert len(recorder.replayed) == 3  # passes of two, two and one
    for one, another in zip(ours, plain.convolve(blocks), strict=True):
        torch.testing.assert_close(one, another, atol=1e-4, rtol=0)


def test_more_windows_than_a_bucket_holds_are_not_refused(plain: WindowedEncoder) -> None:
    encoder, recorder = prepared("padded", most_windows=1)
    blocks = [plain.convolve([MelBlock(one.frames, FLOOR)]) for one in windows(100, 60)]
    for one, another in zip(encoder.attend(blocks), plain.attend(blocks), strict=True):
        torch.testing.assert_close(one, another, atol=1e-4, rtol=0)
    assert not recorder.replayed


def test_everything_is_recorded_before_the_first_pass() -> None:
    recorder = Counting()
    encoder = BucketedEncoder(CHECKPOINT, "float32", "cpu", 1, 2, recorder)
    warm_up(encoder, CHECKPOINT.geometry, 2)
    assert len(recorder.functions) == 8 + 4 * 4  # 1 to 8 quarters; 1 to 4 blocks of four lengths
    assert recorder.replayed  # by the pass over silence


class _Waits(TorchDispatchMode):
    """Records operations for which a host waits for its device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        name = str(func)
        if any(waits in name for waits in ("_local_scalar_dense", "nonzero", "masked_select")):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def test_a_recorded_function_asks_the_device_for_no_value() -> None:
    _, recorder = prepared("padded", most_windows=1)
    with torch.inference_mode(), _Waits() as waits:
        for function in recorder.functions:
            function()
    assert waits.seen == []


def test_a_device_that_cannot_record_is_one_sentence() -> None:
    def cannot(function: Function) -> Function:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    encoder = BucketedEncoder(CHECKPOINT, "float32", "cpu", 1, 1, cannot)
    with pytest.raises(SettingsError, match=r"not permitted .* EncodeWorker.cuda_graphs to false"):
        encoder.prepare()


def test_a_cpu_keeps_transformers_attention_to_the_bit() -> None:
    encoder = encoder_for(CHECKPOINT, EncodeWorkerSettings(cuda_graphs=True))
    assert type(encoder) is WindowedEncoder
    blocks = encoder.convolve([MelBlock(one.frames, FLOOR) for one in windows(100, 60, 100)])
    modules = encoder._encoder
    assert modules.config._attn_implementation == "sdpa"
    ends = torch.tensor([0, *np.cumsum([len(one) for one in blocks])], dtype=torch.int32)
    with torch.inference_mode():
        hidden = torch.cat(blocks)
        for layer in modules.layers:
            hidden = layer(hidden, ends)[0]
        expected = encoder._projector(modules.ln_post(hidden))
    assert torch.equal(torch.cat(encoder.attend([[one] for one in blocks])), expected)


def test_buckets_are_few_and_every_pass_fits_one() -> None:
    assert PUBLISHED.of_rows()[:9] == [26, 52, 78, 104, 130, 156, 182, 208, 260]
    assert len(PUBLISHED.of_rows()) == 24
    assert {b.blocks for b in PUBLISHED.of_blocks()} == {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}
    assert {b.frames for b in PUBLISHED.of_blocks()} == {24, 48, 72, 100}
    for count in range(1, 33):
        for rows in (count, count * 60, count * 104):
            room = PUBLISHED.for_windows(count, rows)
            assert room is not None and room in PUBLISHED.of_rows()
            assert rows <= room <= max(26, rows + 25, rows * 1.25)
    assert PUBLISHED.for_windows(33, 33) is None
    assert PUBLISHED.for_windows(3, 105) == 130
    blocks = set(PUBLISHED.of_blocks())
    for count in range(1, 65):
        assert all(PUBLISHED.for_blocks(count, frames) in blocks for frames in (16, 24, 88, 100))
        assert PUBLISHED.for_blocks(count, 24).blocks <= max(1, 1.5 * count)
    assert PUBLISHED.for_blocks(5, 64) == BlockBucket(6, 72)


class _Kernels(TorchDispatchMode):
    """Counts operations that are kernels on a GPU: all but those that only describe memory."""

    VIEWS = frozenset(
        {
            "view",
            "_unsafe_view",
            "reshape",
            "unbind",
            "t",
            "transpose",
            "slice",
            "select",
            "unsqueeze",
        }
        | {"detach", "expand", "permute", "alias", "squeeze", "split", "empty", "as_strided"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        name = str(func).split(".")[1]
        if name not in self.VIEWS:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def kernels_of(function: Function, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of a recorded function, with attention as one."""
    monkeypatch.setattr(attention_module, "_reference", lambda query, *_: torch.relu(query))
    with torch.inference_mode(), _Kernels() as kernels:
        function()
    return kernels.seen


def test_a_layer_takes_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine: two norms, four products, an activation, two sums; and attention."""
    encoder, recorder = prepared("varlen", most_windows=1)
    layers = len(encoder._encoder.layers)
    seen = kernels_of(recorder.functions[0], monkeypatch)
    around = 4 + 1  # the last norm, the projector, and a copy into the recording
    assert len(seen) <= 10 * layers + around, seen


def test_blocks_reach_the_device_with_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, _ = prepared("varlen", most_windows=4)
    blocks = [MelBlock(one.frames, FLOOR) for one in windows(100, 100, 100)]
    with torch.inference_mode(), _Kernels() as kernels:
        encoder._convolved(blocks, 100)
    assert kernels.seen.count("copy_") == 2  # that, and the recording's own
    staged_blocks = staged(blocks[:1], 2, 100)
    assert staged_blocks.shape == (2, 101, 128)
    assert staged_blocks[0, 0, :2].tolist() == [FLOOR, 100.0]
    assert staged_blocks[1, 0, 1] == 0


@pytest.mark.parametrize("most_windows", [1, 6, 8])
@pytest.mark.parametrize("block_frames", [50, 64, 100, 128])
def test_buckets_follow_the_geometry(most_windows: int, block_frames: int) -> None:
    buckets = Buckets(most_windows, 104, block_frames)
    assert buckets.for_windows(most_windows, 104 * most_windows) in buckets.of_rows()
    assert buckets.for_blocks(1, block_frames).frames == block_frames
    assert buckets.for_blocks(1, 16).frames >= 16
