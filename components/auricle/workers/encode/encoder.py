"""The base class of audio encoders, and the Qwen3-ASR encoder with transformers' modules.

The encoder has two halves. The conv stack works on blocks of one second, so each finished block is
convolved once; the transformer attends over a whole window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig
from transformers.models.qwen3_asr.modeling_qwen3_asr import (
    Qwen3ASREncoder,
    Qwen3ASRMultiModalProjector,
)

from auricle.audio.constants import BINS
from auricle.audio.mel import normalise
from auricle.checkpoints.files import ModelCheckpoint, audio_weights
from auricle.process.device import DeviceModel
from auricle.workers.encode.attention import Attention, Windows, attention_for, to_device, use
from auricle.workers.encode.cost import PassCost, cost_of, padded_lengths

# Keys of the original config that transformers' encoder config lacks.
_DROPPED_KEYS = frozenset(
    {"model_type", "architectures", "conv_chunksize", "max_source_positions", "num_hidden_layers"}
)


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


class Encoder(AudioEncoder):
    def __init__(
        self,
        checkpoint: ModelCheckpoint,
        dtype: str,
        device: str,
        threads: int,
        attention: Attention | None = None,
    ) -> None:
        """`attention` is by default the fastest on the device."""
        super().__init__(checkpoint, dtype, device, threads)
        known = Qwen3ASRConfig().audio_config.to_dict().keys()
        audio = {
            k: v
            for k, v in checkpoint.audio_config.items()
            if k in known and k not in _DROPPED_KEYS
        }
        config = Qwen3ASRConfig(audio_config=audio, text_config=dict(checkpoint.text_config))
        config.audio_config._attn_implementation = "sdpa"  # transformers' own choice
        self._attention = attention or attention_for(self._device, self._dtype)
        self._encoder = Qwen3ASREncoder(config.audio_config)
        self._projector = Qwen3ASRMultiModalProjector(config)
        self._load_audio(checkpoint, self._encoder, self._projector)
        use(self._attention, self._encoder)
        encoder = self._encoder
        self._convs = (encoder.conv2d1, encoder.conv2d2, encoder.conv2d3)
        for conv in self._convs:
            # Saves a third of the time of one block on a CPU; GPUs prefer it in half precision.
            conv.to(memory_format=torch.channels_last)
        self._embeddings = checkpoint.geometry.embeddings

    @torch.inference_mode()
    def convolve(self, blocks: Sequence[MelBlock]) -> list[torch.Tensor]:
        """Run the conv stack and add positions; returns (length_i, d_model) per block.

        Whole blocks take one pass and all shorter ones, padded with zeros, another.
        """
        padded = padded_lengths([len(block.frames) for block in blocks], self._block_frames)
        outputs: dict[int, torch.Tensor] = {}
        for length in set(padded):
            rows = [row for row, own in enumerate(padded) if own == length]
            hidden = self._convolve([blocks[row] for row in rows], length)
            slices = [
                one[: self._embeddings(len(blocks[row].frames))]
                for row, one in zip(rows, hidden, strict=True)
            ]
            # Copied, because a cached slice would keep the memory of the batch alive.
            copies = [torch.empty_like(one) for one in slices]
            torch._foreach_copy_(copies, slices)  # one kernel for all of them
            outputs |= zip(rows, copies, strict=True)
        return [outputs[row] for row in range(len(blocks))]

    def _convolve(self, blocks: Sequence[MelBlock], length: int) -> torch.Tensor:
        """Convolve blocks padded to `length` frames; returns (blocks, rows, d_model)."""
        on_gpu = self._device.type == "cuda"
        return self._stack(to_device(staged(blocks, len(blocks), length, on_gpu), self._device))

    def _stack(self, blocks: torch.Tensor) -> torch.Tensor:
        """Convolve `staged` blocks on the device, without synchronization."""
        encoder = self._encoder
        hidden = _features(blocks).to(dtype=self._dtype, memory_format=torch.channels_last)
        for conv in self._convs:
            hidden = functional.gelu(conv(hidden))
        count, channels, bins, steps = hidden.shape
        hidden = encoder.conv_out(hidden.permute(0, 3, 1, 2).reshape(count, steps, channels * bins))
        positions = encoder.positional_embedding.positional_embedding[:steps]
        placed: torch.Tensor = hidden + positions.to(hidden.dtype)
        return placed

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Run transformer and projector over windows, given their blocks' conv outputs.

        All windows take one pass, concatenated, and each attends only to itself (attention.py).
        Returns (length_i, hidden_size) per window, on the encoder's device.
        """
        lengths = [sum(len(block) for block in blocks) for blocks in windows]
        embeddings = self._attended([block for blocks in windows for block in blocks], lengths)
        return list(torch.split(embeddings, lengths))

    def _attended(self, blocks: Sequence[torch.Tensor], lengths: Sequence[int]) -> torch.Tensor:
        """Return the embeddings of windows of these lengths, concatenated."""
        where = Windows.of(lengths, self._attention, self._device)
        return self._transform(torch.cat(list(blocks)), where)

    def _transform(self, hidden: torch.Tensor, where: Windows) -> torch.Tensor:
        """Run transformer and projector over rows on the device, without synchronization."""
        arguments = where.arguments()
        for layer in self._encoder.layers:
            hidden = layer(hidden, where.ends, **arguments)[0]
        embeddings: torch.Tensor = self._projector(self._encoder.ln_post(hidden))
        return embeddings


def staged(
    blocks: Sequence[MelBlock], count: int, frames: int, pinned: bool = False
) -> torch.Tensor:
    """Return blocks on the host for one copy to the device, float32 (count, 1 + frames, 128).

    Each begins with its floor and its number of frames; further blocks have none.
    """
    memory = torch.empty(count, 1 + frames, BINS, pin_memory=pinned)
    memory[:, 0].zero_()
    for own, block in zip(memory.numpy(), blocks, strict=False):
        length = len(block.frames)
        own[0, 0], own[0, 1] = block.floor, length
        own[1 : 1 + length] = block.frames
    return memory


def _features(blocks: torch.Tensor) -> torch.Tensor:
    """Return the normalised features of `staged` blocks, (blocks, 1, 128, frames), zero-padded."""
    floor, length = blocks[:, 0, 0, None, None], blocks[:, 0, 1, None, None]
    values = blocks[:, 1:]
    real = torch.arange(values.shape[1], device=blocks.device)[:, None] < length
    scaled = (torch.maximum(values, floor) + 4.0) / 4.0  # as `normalise`
    return torch.where(real, scaled, 0.0).transpose(1, 2).unsqueeze(1)
