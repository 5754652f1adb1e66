"""The encoder with its passes recorded, for a GPU: see buckets.py and graphs.py.

What fills a pass up to its bucket changes no embedding: blocks and windows do not see each other,
and a padded block's rows do not see how far it is padded (padding.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from auricle.audio.constants import BINS
from auricle.checkpoint.files import Checkpoint
from auricle.encode_worker.attention import Attention, Windows, attention_for
from auricle.encode_worker.buckets import BlockBucket, Buckets, WindowBucket
from auricle.encode_worker.encoder import Encoder, MelBlock, fill_features
from auricle.encode_worker.graphs import Recorder, Recording
from auricle.errors import SettingsError
from auricle.process.device_faults import first_sentence
from auricle.process.torch_modules import DTYPES


@dataclass(frozen=True)
class _Transformer:
    """A recorded pass of the transformer; inputs on the device."""

    hidden: torch.Tensor  # (rows, d_model)
    where: Windows
    recording: Recording


@dataclass(frozen=True)
class _Stack:
    """A recorded pass of the conv stack; inputs on the device."""

    features: torch.Tensor  # float32 (blocks, 1, 128, frames)
    recording: Recording


class BucketedEncoder(Encoder):
    """Records its passes in `prepare`; until then, and for what fits no bucket, as its parent."""

    def __init__(
        self,
        checkpoint: Checkpoint,
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
