"""The base class of audio encoders.

An encoder has two halves. The first works on blocks of one second, so each finished block is
convolved once; the second attends over a whole window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from auricle.audio.mel import normalise
from auricle.checkpoints.files import ModelCheckpoint, audio_weights
from auricle.process.device import DeviceModel
from auricle.workers.encode.cost import PassCost, cost_of

BlockOutput = Any  # an encoder's result for a block, opaque to callers


@dataclass(frozen=True)
class MelBlock:
    """Unclamped log-mel of at most one block, float32 (frames, 128), and the clamp floor.

    `after` is the previous block of the window, in the same call, or its output; None at the begin.
    """

    frames: npt.NDArray[np.float32]
    floor: float
    after: MelBlock | BlockOutput | None = None


@dataclass(frozen=True)
class MelWindow:
    """Unclamped log-mel of one window, float32 (frames, 128), and the segment's clamp floor."""

    frames: npt.NDArray[np.float32]
    floor: float


def do_nothing() -> None:
    """Continue the pass."""


class AudioEncoder(DeviceModel):
    """The audio encoder of a checkpoint. Both halves raise whatever the device raises.

    Encoders whose passes take long on a CPU call `between_layers` there; an exception of it
    ends the pass.
    """

    between_layers: Callable[[], None] = staticmethod(do_nothing)

    def __init__(self, checkpoint: ModelCheckpoint, dtype: str, device: str, threads: int) -> None:
        """Raises CheckpointError if the weights do not fit the config."""
        super().__init__(dtype, device, threads)
        self._checkpoint = checkpoint
        self._block_frames = checkpoint.geometry.block_frames

    @cached_property
    def cost(self) -> PassCost:
        return cost_of(self._checkpoint)

    def prepare(self) -> None:
        """Prepare for passes, before the first one."""

    def convolve(self, blocks: Sequence[MelBlock]) -> list[BlockOutput]:
        """Compute blocks as far as they are independent of later ones; returns device tensors.

        Callers cache the outputs of finished blocks.
        """
        raise NotImplementedError

    def attend(self, windows: Sequence[Sequence[BlockOutput]]) -> list[torch.Tensor]:
        """Return (length_i, hidden_size) per window, given the outputs of its blocks."""
        raise NotImplementedError

    def encode(self, windows: Sequence[MelWindow]) -> list[torch.Tensor]:
        """Run both halves; returns (length_i, hidden_size) per window."""
        parts = [self.blocks(window) for window in windows]
        outputs = iter(self.convolve([block for blocks in parts for block in blocks]))
        return self.attend([[next(outputs) for _ in blocks] for blocks in parts])

    def blocks(self, window: MelWindow) -> list[MelBlock]:
        starts = range(0, len(window.frames), self._block_frames)
        return [
            MelBlock(window.frames[at : at + self._block_frames], window.floor) for at in starts
        ]

    def _features(self, block: MelBlock) -> torch.Tensor:
        """Return a block's features, (frames, bins), on the device."""
        scaled = np.ascontiguousarray(normalise(block.frames, block.floor))
        return torch.from_numpy(scaled).to(self._device, self._dtype)

    def _load_audio(self, checkpoint: ModelCheckpoint, encoder: Any, projector: Any) -> None:
        """Load a checkpoint's audio encoder and projector. Raises CheckpointError."""
        weights, projection = audio_weights(checkpoint)
        self._load(encoder, weights, "audio encoder")
        self._load(projector, projection, "projector")
