"""Computes embeddings of whole chunks with the Qwen2-Audio encoder modules of transformers.

Everything in a chunk sees everything else, so nothing but the features of its seconds is kept from
one encoding to the next. Frames that are not there are left out, where transformers fills every
chunk up to 30 s and masks what it has filled: a short chunk costs less, and gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers.models.qwen2_audio.configuration_qwen2_audio import (
    Qwen2AudioConfig,
    Qwen2AudioEncoderConfig,
)
from transformers.models.qwen2_audio.modeling_qwen2_audio import (
    Qwen2AudioEncoder,
    Qwen2AudioMultiModalProjector,
)

from auricle.audio.constants import BINS
from auricle.audio.mel import normalise
from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.whole_chunks import LOOKAHEAD, WholeChunks
from auricle.encode_worker.encoder import MelBlock, MelWindow, load_audio, split
from auricle.errors import CheckpointError
from auricle.process.torch_modules import DTYPES, set_up_torch


class WholeChunkEncoder:
    """The audio encoder of a checkpoint, as `encoder.AudioEncoder`; for one worker thread.

    Sets torch's number of CPU threads for the process. Raises CheckpointError if the weights do
    not fit the config.
    """

    def __init__(self, checkpoint: Checkpoint, dtype: str, device: str, threads: int) -> None:
        if not isinstance(checkpoint.geometry, WholeChunks):
            raise CheckpointError(f"{checkpoint.path} is not encoded in whole chunks")
        self._geometry = checkpoint.geometry
        self._dtype, self._device = DTYPES[dtype], torch.device(device)
        set_up_torch(self._dtype, threads)
        known = Qwen2AudioEncoderConfig().to_dict().keys() - {"architectures", "model_type"}
        audio = {key: value for key, value in checkpoint.audio_config.items() if key in known}
        config = Qwen2AudioEncoderConfig(**audio)
        config._attn_implementation = "sdpa"
        self._encoder = Qwen2AudioEncoder(config)
        width = {"hidden_size": checkpoint.geometry.hidden_size}
        self._projector = Qwen2AudioMultiModalProjector(
            Qwen2AudioConfig(audio_config=config, text_config=width)
        )
        load_audio(checkpoint, self._encoder, self._projector, self._device, self._dtype)

    @property
    def on_gpu(self) -> bool:
        """Whether passes run on a GPU."""
        return self._device.type == "cuda"

    def prepare(self) -> None:
        """Make ready what passes need, before the first one."""

    def convolve(self, blocks: Sequence[MelBlock]) -> list[torch.Tensor]:
        """Return the features of each block as the encoder takes them, (frames, 128)."""
        values = (np.ascontiguousarray(normalise(b.frames, b.floor)) for b in blocks)
        return [torch.from_numpy(one).to(self._device, self._dtype) for one in values]

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Encode chunks, given as the features of their blocks; one after the other.

        Returns (length_i, hidden_size) per chunk, on the encoder's device.
        """
        return [self._encoded(torch.cat(list(blocks))) for blocks in windows]

    def _encoded(self, frames: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of one chunk, of whose frames the last two are lookahead."""
        encoder: Any = self._encoder
        positions = self._geometry.positions(len(frames))
        # A full chunk has no frames behind it.
        features = frames[: self._geometry.window_frames - LOOKAHEAD].T[None]
        hidden = functional.gelu(encoder.conv1(features))
        hidden = functional.gelu(encoder.conv2(hidden))[:, :, :positions].permute(0, 2, 1)
        hidden = hidden + encoder.embed_positions.weight[:positions]
        for layer in encoder.layers:
            hidden = layer(hidden, None)
        hidden = encoder.avg_pooler(hidden.permute(0, 2, 1)).permute(0, 2, 1)
        embeddings: torch.Tensor = self._projector(encoder.layer_norm(hidden))[0]
        return embeddings

    def encode(self, windows: Sequence[MelWindow]) -> list[torch.Tensor]:
        """Run both halves; returns (length_i, hidden_size) per window."""
        return self.attend([self.convolve(split(w, self._geometry.block_frames)) for w in windows])


@dataclass(frozen=True)
class WholeChunkCost:
    """The floating-point operations of one checkpoint's encoder, as `cost.PassCost`."""

    d_model: int
    layers: int
    ffn: int
    output: int

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> WholeChunkCost:
        """Read the sizes from a checkpoint."""
        config, geometry = checkpoint.audio_config, checkpoint.geometry
        return cls(
            geometry.encoder_d_model,
            int(config["encoder_layers"]),
            int(config["encoder_ffn_dim"]),
            geometry.hidden_size,
        )

    def convs(self, frames: Sequence[int]) -> int:
        """Return 0: blocks are not convolved by themselves."""
        return 0

    def window(self, embeddings: int) -> int:
        """Return the FLOPs of a chunk with that many embeddings."""
        width, rows = self.d_model, 2 * embeddings
        convs = 2 * 3 * width * (2 * rows * BINS + rows * width)
        products = 4 * width**2 + 2 * width * self.ffn
        layer = 2 * rows * products + 4 * rows**2 * width
        return convs + self.layers * layer + 2 * embeddings * width * self.output
