"""The windowed encoder with recorded passes, for a GPU.

A pass has hundreds of small kernels, which Python launches more slowly than a GPU runs them. So
passes are padded to one of a few shapes (buckets), each recorded as a CUDA graph and replayed with
one call. Padding changes no embedding: blocks and windows are independent, and a padded block's
rows do not depend on the amount of padding (`cost.padded_lengths`).

The transformer's buckets have 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 … quarters of a window's
rows, which may belong to any number of windows. The conv stack's have 1, 2, 3, 4, 6, 8, 12 … blocks
of one of four lengths: 24, 48, 72 or 100 frames in the published geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from auricle.audio.constants import BINS
from auricle.checkpoints.files import ModelCheckpoint
from auricle.core.errors import SettingsError
from auricle.process.device import DTYPES
from auricle.process.device_faults import first_sentence
from auricle.workers.encode.attention import Attention, Windows, attention_for
from auricle.workers.encode.encoder import MelBlock
from auricle.workers.encode.windowed import WindowedEncoder, staged

_QUARTERS = 4  # of a window, and of a block
_STRIDE = 8  # frames per row; lengths are multiples of it
_BLOCKS_PER_WINDOW = 2  # limit in live sessions; recordings with more take several passes
_WARM_UP_RUNS = 2  # in which libraries allocate workspaces and choose kernels

# Runs a pass on the current content of its inputs. A recorded function overwrites its last result.
Function = Callable[[], torch.Tensor]
# Runs a function, which must not synchronize with the device, and returns its recording. A recorded
# function reads and writes the same memory each time.
Recorder = Callable[[Function], Function]


@dataclass(frozen=True)
class BlockBucket:
    """A pass of the conv stack over up to `blocks`, each padded to `frames`."""

    blocks: int
    frames: int


@dataclass(frozen=True)
class Buckets:
    """The buckets for up to `most_windows` of up to `window_rows` embeddings each."""

    most_windows: int
    window_rows: int
    block_frames: int

    def of_rows(self) -> list[int]:
        """Return the numbers of rows of the transformer's passes, rising."""
        quarter = -(-self.window_rows // _QUARTERS)
        return [quarter * count for count in _ladder(_QUARTERS * self.most_windows, 4)]

    def of_blocks(self) -> list[BlockBucket]:
        return [
            BlockBucket(blocks, frames)
            for blocks in _ladder(self.most_blocks, 2)
            for frames in self._lengths()
        ]

    @property
    def most_blocks(self) -> int:
        return _ladder(_BLOCKS_PER_WINDOW * self.most_windows, 2)[-1]

    def for_windows(self, windows: int, rows: int) -> int | None:
        """Return the rows of the smallest sufficient pass; None if all are too small."""
        if windows > self.most_windows:
            return None
        return next((one for one in self.of_rows() if one >= rows), None)

    def for_blocks(self, blocks: int, frames: int) -> BlockBucket:
        """Return the smallest sufficient bucket for up to `most_blocks` of a length."""
        count = next(n for n in _ladder(self.most_blocks, 2) if n >= blocks)
        return BlockBucket(count, next(n for n in self._lengths() if n >= frames))

    def _lengths(self) -> list[int]:
        step = max(1, self.block_frames // _QUARTERS // _STRIDE) * _STRIDE
        shorter = (step * quarter for quarter in range(1, _QUARTERS))
        return [*(frames for frames in shorter if frames < self.block_frames), self.block_frames]


def _ladder(least: int, steps: int) -> list[int]:
    """Return 1, 2 … and then numbers with `steps` equal steps to each doubling, up to `least`.

    The last is the first that is not less. For 2 steps: 1, 2, 3, 4, 6, 8, 12, 16.
    """
    found = [1]
    while found[-1] < least:
        step = max(1, (1 << found[-1].bit_length() - 1) // steps)
        found.append(found[-1] + step)
    return found


class CudaGraphs:
    """Records CUDA graphs that share their working memory: one of them runs at a time."""

    def __init__(self) -> None:
        self._pool: Any = None  # shared by all graphs; its type has no public name

    def capture(self, function: Function) -> Function:
        """A `Recorder`. Raises RuntimeError if the function synchronizes with the device."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UP_RUNS):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # NIXL's thread may call CUDA meanwhile, so only this thread's calls are watched.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            output = function()

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay


def eager(function: Function) -> Function:
    """A `Recorder` for machines without CUDA graphs: a replay calls the function again."""
    output = function()
    return lambda: output.copy_(function())


@dataclass(frozen=True)
class _Transformer:
    hidden: torch.Tensor  # (rows, d_model)
    where: Windows
    replay: Function


@dataclass(frozen=True)
class _Stack:
    blocks: torch.Tensor  # as `staged`
    replay: Function


class BucketedEncoder(WindowedEncoder):
    """Records its passes in `prepare`; before that, and for too large passes, runs eagerly."""

    def __init__(
        self,
        checkpoint: ModelCheckpoint,
        dtype: str,
        device: str,
        threads: int,
        most_windows: int,
        record: Recorder,
        attention: Attention | None = None,
    ) -> None:
        best = attention_for(torch.device(device), DTYPES[dtype])
        if best == "per_window":  # cannot be recorded, as it splits windows in Python
            best = "padded"
        super().__init__(checkpoint, dtype, device, threads, attention or best)
        geometry = checkpoint.geometry
        self._width = geometry.encoder_d_model
        self._buckets = Buckets(most_windows, geometry.window_embeddings, geometry.block_frames)
        self._record = record
        self._transformers: dict[int, _Transformer] = {}  # by their rows
        self._stacks: dict[BlockBucket, _Stack] = {}

    @torch.inference_mode()
    def prepare(self) -> None:
        """Record all buckets, the largest first, as the others fit into its memory.

        Raises SettingsError if recording fails.
        """
        rows = self._buckets.of_rows()[::-1]
        blocks = sorted(self._buckets.of_blocks(), key=lambda b: b.blocks * b.frames, reverse=True)
        # Buckets share the memory of their inputs, as passes do not overlap.
        hidden = torch.zeros(rows[0], self._width, dtype=self._dtype, device=self._device)
        size = max(_staged_size(shape) for shape in blocks)
        memory = torch.zeros(size, device=self._device)
        try:
            for count in rows:
                self._transformers[count] = self._transformer(hidden[:count])
            for shape in blocks:
                self._stacks[shape] = self._stack_of(shape, memory)
        except RuntimeError as error:
            raise SettingsError(
                f"the encoder's passes cannot be recorded as CUDA graphs "
                f"({first_sentence(error)}): lower EncodeWorker.max_batch_windows if memory is "
                "short; otherwise set EncodeWorker.cuda_graphs to false"
            ) from error

    def _transformer(self, hidden: torch.Tensor) -> _Transformer:
        where = self._within([self._buckets.window_rows // _QUARTERS], len(hidden))
        where = where.copied(self._device)
        return _Transformer(hidden, where, self._record(lambda: self._transform(hidden, where)))

    def _stack_of(self, shape: BlockBucket, memory: torch.Tensor) -> _Stack:
        blocks = memory[: _staged_size(shape)].view(shape.blocks, 1 + shape.frames, BINS)
        return _Stack(blocks, self._record(lambda: self._stack(blocks)))

    def _within(self, lengths: Sequence[int], rows: int) -> Windows:
        buckets = self._buckets
        return Windows.within(
            lengths, buckets.most_windows, rows, buckets.window_rows, self._attention
        )

    def _attended(self, blocks: Sequence[torch.Tensor], lengths: Sequence[int]) -> torch.Tensor:
        rows = sum(lengths)
        recorded = self._transformers.get(self._buckets.for_windows(len(lengths), rows) or 0)
        if recorded is None:
            return super()._attended(blocks, lengths)
        torch.cat(list(blocks), out=recorded.hidden[:rows])
        recorded.where.fill(self._within(lengths, len(recorded.hidden)))
        return recorded.replay()[:rows].clone()

    def _convolve(self, blocks: Sequence[MelBlock], length: int) -> torch.Tensor:
        if not self._stacks:
            return super()._convolve(blocks, length)
        most = self._buckets.most_blocks
        if len(blocks) <= most:
            return self._convolved(blocks, length)
        parts = (blocks[at : at + most] for at in range(0, len(blocks), most))
        return torch.cat([self._convolved(part, length).clone() for part in parts])

    def _convolved(self, blocks: Sequence[MelBlock], length: int) -> torch.Tensor:
        """Return rows that the next replay overwrites."""
        shape = self._buckets.for_blocks(len(blocks), length)
        recorded = self._stacks[shape]
        on_gpu = self._device.type == "cuda"
        # torch does not reuse pinned memory during a copy, so this does not wait for the last pass.
        inputs = staged(blocks, shape.blocks, shape.frames, on_gpu)
        recorded.blocks.copy_(inputs, non_blocking=True)
        return recorded.replay()[: len(blocks)]


def _staged_size(shape: BlockBucket) -> int:
    return shape.blocks * (1 + shape.frames) * BINS
