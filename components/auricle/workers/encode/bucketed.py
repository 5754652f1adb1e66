"""The encoder with its passes recorded, for a GPU: see buckets.py and graphs.py.

What fills a pass up to its bucket changes no embedding: blocks and windows do not see each other,
and a padded block's rows do not see how far it is padded (padding.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from auricle.audio.constants import BINS
from auricle.checkpoints.files import ModelCheckpoint
from auricle.core.errors import SettingsError
from auricle.process.device import DTYPES
from auricle.process.device_faults import first_sentence
from auricle.workers.encode.attention import Attention, Windows, attention_for
from auricle.workers.encode.encoder import Encoder, MelBlock, fill_features

# Shapes of passes: a pass is filled up to the next of a few, each of which is recorded. No I/O.
#
# The transformer's have 1, 2, 4 … windows, and rows for a quarter, half, three quarters or all of
# the embeddings that so many windows may have. The conv stack's have 1, 2, 4 … blocks of one of
# four lengths: 24, 48, 72 or 100 frames of the published geometry.

_QUARTERS = (1, 2, 3, 4)
_STRIDE = 8  # frames that become one row; lengths are multiples, as in padding.py
_BLOCKS_PER_WINDOW = 2  # of a live session at most; more, in recordings, take several passes


@dataclass(frozen=True)
class WindowBucket:
    """Room for windows, and for their embeddings one behind the other."""

    windows: int
    rows: int


@dataclass(frozen=True)
class BlockBucket:
    """Room for blocks, each padded to `frames`."""

    blocks: int
    frames: int


@dataclass(frozen=True)
class Buckets:
    """The shapes for passes of up to `most_windows`, of up to `window_rows` embeddings each."""

    most_windows: int
    window_rows: int
    block_frames: int

    def of_windows(self) -> list[WindowBucket]:
        """Return those of the transformer."""
        return [
            WindowBucket(windows, windows * -(-self.window_rows * quarter // 4))
            for windows in _powers(self.most_windows)
            for quarter in _QUARTERS
        ]

    def of_blocks(self) -> list[BlockBucket]:
        """Return those of the conv stack."""
        return [
            BlockBucket(blocks, frames)
            for blocks in _powers(self.most_blocks)
            for frames in self._lengths()
        ]

    @property
    def most_blocks(self) -> int:
        """Blocks of one pass of the conv stack at most."""
        return _BLOCKS_PER_WINDOW * _power(self.most_windows)

    def for_windows(self, windows: int, rows: int) -> WindowBucket | None:
        """Return the smallest that has room; None if there is none."""
        if windows > self.most_windows:
            return None
        count = _power(windows)
        fitting = (one for one in self.of_windows() if one.windows == count and one.rows >= rows)
        return next(fitting, None)

    def for_blocks(self, blocks: int, frames: int) -> BlockBucket:
        """Return the smallest that has room for up to `most_blocks` of a length."""
        return BlockBucket(_power(blocks), next(n for n in self._lengths() if n >= frames))

    def _lengths(self) -> list[int]:
        step = max(1, self.block_frames // 4 // _STRIDE) * _STRIDE
        shorter = (step * quarter for quarter in _QUARTERS[:-1])
        return [*(frames for frames in shorter if frames < self.block_frames), self.block_frames]


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _powers(most: int) -> list[int]:
    return [1 << power for power in range(_power(most).bit_length())]


# Recording what a pass asks of the device, to be repeated at the cost of one call.
#
# A pass is some hundred small kernels, which Python starts more slowly than a GPU works them off. A
# recorded function reads and writes the same memory each time: callers fill its inputs before
# `replay` and take the output before the next one.

_RUNS_BEFORE = 2  # in which libraries allocate their workspaces and choose kernels


class RecordedFunction(Protocol):
    """A recorded function."""

    def replay(self) -> torch.Tensor:
        """Run it on what its inputs contain now; the next replay overwrites what it returns."""
        ...


class Recorder(Protocol):
    """Records functions that read and write memory which stays where it is."""

    def capture(self, function: Callable[[], torch.Tensor]) -> RecordedFunction:
        """Run and record a function, which must not wait for the device."""
        ...


class CudaGraphs:
    """Records CUDA graphs, which share their working memory: one of them runs at a time."""

    def __init__(self) -> None:
        self._pool: Any = None  # of the first; torch gives its type no public name

    def capture(self, function: Callable[[], torch.Tensor]) -> RecordedFunction:
        """Raises RuntimeError if the function waits for the device."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_RUNS_BEFORE):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # NIXL's thread may call CUDA meanwhile, so only this thread's calls are watched.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            output = function()
        return _CudaGraph(graph, output)


class _CudaGraph:
    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor) -> None:
        self._graph = graph
        self._output = output

    def replay(self) -> torch.Tensor:
        self._graph.replay()
        return self._output


class EagerRecorder:
    """In place of CUDA graphs where there are none: a replay calls the function again."""

    def capture(self, function: Callable[[], torch.Tensor]) -> RecordedFunction:
        """Raises what the function raises."""
        return _Eager(function, function())


class _Eager:
    def __init__(self, function: Callable[[], torch.Tensor], output: torch.Tensor) -> None:
        self._function = function
        self._output = output

    def replay(self) -> torch.Tensor:
        return self._output.copy_(self._function())


@dataclass(frozen=True)
class _Transformer:
    """A recorded pass of the transformer; inputs on the device."""

    hidden: torch.Tensor  # (rows, d_model)
    where: Windows
    recording: RecordedFunction


@dataclass(frozen=True)
class _Stack:
    """A recorded pass of the conv stack; inputs on the device."""

    features: torch.Tensor  # float32 (blocks, 1, 128, frames)
    recording: RecordedFunction


class BucketedEncoder(Encoder):
    """Records its passes in `prepare`; until then, and for what fits no bucket, as its parent."""

    def __init__(
        self,
        checkpoint: ModelCheckpoint,
        dtype: str,
        device: str,
        threads: int,
        most_windows: int,
        recorder: Recorder,
        attention: Attention | None = None,
    ) -> None:
        best = attention_for(torch.device(device), DTYPES[dtype])
        if best == "per_window":  # which splits the windows in Python and cannot be recorded
            best = "padded"
        super().__init__(checkpoint, dtype, device, threads, attention or best)
        geometry = checkpoint.geometry
        self._width = geometry.encoder_d_model
        self._buckets = Buckets(most_windows, geometry.window_embeddings, geometry.block_frames)
        self._recorder = recorder
        self._transformers: dict[WindowBucket, _Transformer] = {}
        self._stacks: dict[BlockBucket, _Stack] = {}

    @torch.inference_mode()
    def prepare(self) -> None:
        """Record all buckets, the largest first: the others fit into its memory.

        Raises SettingsError if the device cannot.
        """
        windows = sorted(self._buckets.of_windows(), key=lambda b: b.rows, reverse=True)
        blocks = sorted(self._buckets.of_blocks(), key=lambda b: b.blocks * b.frames, reverse=True)
        # Buckets share their inputs too, as passes do not overlap.
        hidden = torch.zeros(windows[0].rows, self._width, dtype=self._dtype, device=self._device)
        features = torch.zeros(blocks[0].blocks * BINS * blocks[0].frames, device=self._device)
        try:
            for room in windows:
                self._transformers[room] = self._transformer(room, hidden)
            for shape in blocks:
                self._stacks[shape] = self._stack_of(shape, features)
        except RuntimeError as error:
            raise SettingsError(
                f"the encoder's passes cannot be recorded as CUDA graphs "
                f"({first_sentence(error)}): lower EncodeWorker.max_batch_windows if memory is "
                f"short, else set EncodeWorker.cuda_graphs to false"
            ) from error

    def _transformer(self, room: WindowBucket, memory: torch.Tensor) -> _Transformer:
        hidden = memory[: room.rows]
        where = self._within([self._buckets.window_rows // 4], room).copied(self._device)
        recording = self._recorder.capture(lambda: self._transform(hidden, where))
        return _Transformer(hidden, where, recording)

    def _stack_of(self, shape: BlockBucket, memory: torch.Tensor) -> _Stack:
        size = shape.blocks * BINS * shape.frames
        features = memory[:size].view(shape.blocks, 1, BINS, shape.frames)
        return _Stack(features, self._recorder.capture(lambda: self._stack(features)))

    def _within(self, lengths: Sequence[int], room: WindowBucket) -> Windows:
        return Windows.within(
            lengths, room.windows, room.rows, self._buckets.window_rows, self._attention
        )

    def _attended(self, blocks: Sequence[torch.Tensor], lengths: Sequence[int]) -> torch.Tensor:
        rows = sum(lengths)
        room = self._buckets.for_windows(len(lengths), rows)
        if room is None or room not in self._transformers:
            return super()._attended(blocks, lengths)
        recorded = self._transformers[room]
        torch.cat(list(blocks), out=recorded.hidden[:rows])
        recorded.hidden[rows:].zero_()
        recorded.where.fill(self._within(lengths, room))
        return recorded.recording.replay()[:rows].clone()

    def _convolve(self, blocks: Sequence[MelBlock], length: int) -> torch.Tensor:
        if not self._stacks:
            return super()._convolve(blocks, length)
        most = self._buckets.most_blocks
        if len(blocks) <= most:
            return self._convolved(blocks, length)
        parts = (blocks[at : at + most] for at in range(0, len(blocks), most))
        return torch.cat([self._convolved(part, length).clone() for part in parts])

    def _convolved(self, blocks: Sequence[MelBlock], length: int) -> torch.Tensor:
        """Return what the next replay overwrites."""
        shape = self._buckets.for_blocks(len(blocks), length)
        recorded = self._stacks[shape]
        # torch keeps pinned memory for the next pass, and hands none out that is being copied:
        # nothing here waits for the device to be done with the pass before.
        staged = torch.zeros(recorded.features.shape, pin_memory=self._device.type == "cuda")
        fill_features(staged, blocks)
        recorded.features.copy_(staged, non_blocking=True)
        return recorded.recording.replay()[: len(blocks)]
