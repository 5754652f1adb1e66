"""Computes embeddings of whole chunks with the Qwen2-Audio encoder modules of transformers.

Everything in a chunk sees everything else, so nothing but the features of its seconds is kept from
one encoding to the next. Frames that are not there are left out, where transformers fills every
chunk up to 30 s and masks what it has filled: a short chunk costs less, and gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.whole_chunks import LOOKAHEAD, WholeChunks
from auricle.core.errors import CheckpointError
from auricle.process.device import config_of
from auricle.workers.encode.encoder import AudioEncoder, MelBlock


class WholeChunkEncoder(AudioEncoder):
    """The audio encoder of a Qwen2-Audio checkpoint."""

    def __init__(self, checkpoint: ModelCheckpoint, dtype: str, device: str, threads: int) -> None:
        super().__init__(checkpoint, dtype, device, threads)
        if not isinstance(checkpoint.geometry, WholeChunks):
            raise CheckpointError(f"{checkpoint.path} is not encoded in whole chunks")
        self._geometry = checkpoint.geometry
        audio = config_of(Qwen2AudioEncoderConfig, checkpoint.audio_config)
        config = Qwen2AudioEncoderConfig(**audio)
        config._attn_implementation = "sdpa"
        self._encoder = Qwen2AudioEncoder(config)
        width = {"hidden_size": checkpoint.geometry.hidden_size}
        self._projector = Qwen2AudioMultiModalProjector(
            Qwen2AudioConfig(audio_config=config, text_config=width)
        )
        self._load_audio(checkpoint, self._encoder, self._projector)

    def convolve(self, blocks: Sequence[MelBlock]) -> list[torch.Tensor]:
        """Return the features of each block as the encoder takes them, (frames, 128)."""
        return [self._features(block) for block in blocks]

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Encode chunks, given as the features of their blocks; one after the other.

        Returns (length_i, hidden_size) per chunk, on the encoder's device.
        """
        return [self._encoded(torch.cat(list(blocks))) for blocks in windows]

    def _encoded(self, frames: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of one chunk, of whose frames the last two are lookahead."""
        encoder: Any = self._encoder
        hidden = embedded(encoder, self._geometry, frames)[None]
        for layer in encoder.layers:
            self.checkpoint()
            hidden = layer(hidden, None)
        hidden = encoder.avg_pooler(hidden.permute(0, 2, 1)).permute(0, 2, 1)
        embeddings: torch.Tensor = self._projector(encoder.layer_norm(hidden))[0]
        return embeddings


def embedded(encoder: Any, geometry: WholeChunks, frames: torch.Tensor) -> torch.Tensor:
    """Convolve a chunk's frames and add positions; returns (positions, d_model).

    The last two frames are lookahead.
    """
    positions = geometry.positions(len(frames))
    # A full chunk has no frames behind it.
    features = frames[: geometry.window_frames - LOOKAHEAD].T[None]
    hidden = functional.gelu(encoder.conv2(functional.gelu(encoder.conv1(features))))
    placed: torch.Tensor = hidden[0, :, :positions].T + encoder.embed_positions.weight[:positions]
    return placed


@dataclass(frozen=True)
class WholeChunkCost:
    """The floating-point operations of one checkpoint's encoder, as `cost.PassCost`."""

    d_model: int
    layers: int
    ffn: int
    output: int

    @classmethod
    def of(cls, checkpoint: ModelCheckpoint) -> WholeChunkCost:
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
