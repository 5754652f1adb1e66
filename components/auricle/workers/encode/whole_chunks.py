"""The Qwen2-Audio encoder with transformers' modules.

All positions of a chunk attend to each other, so only the features of its seconds are cached.
transformers pads every chunk to 30 s with a mask; without the padding a short chunk costs less and
has the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.models.qwen2_audio.configuration_qwen2_audio import (
    Qwen2AudioConfig,
    Qwen2AudioEncoderConfig,
)
from transformers.models.qwen2_audio.modeling_qwen2_audio import (
    Qwen2AudioEncoder,
    Qwen2AudioMultiModalProjector,
)

from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.whole_chunks import WholeChunks
from auricle.core.errors import CheckpointError
from auricle.process.device import config_of
from auricle.workers.encode.encoder import AudioEncoder, MelBlock
from auricle.workers.encode.whisper import embedded


class WholeChunkEncoder(AudioEncoder):
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
        """Return the features of each block, (frames, 128)."""
        return [self._features(block) for block in blocks]

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Encode chunks, given as the features of their blocks, one at a time.

        Returns (length_i, hidden_size) per chunk, on the encoder's device.
        """
        return [self._encoded(torch.cat(list(blocks))) for blocks in windows]

    def _encoded(self, frames: torch.Tensor) -> torch.Tensor:
        encoder: Any = self._encoder
        hidden = embedded(encoder, self._geometry, frames)[None]
        for layer in encoder.layers:
            self.between_layers()
            hidden = layer(hidden, None)
        hidden = encoder.avg_pooler(hidden.permute(0, 2, 1)).permute(0, 2, 1)
        embeddings: torch.Tensor = self._projector(encoder.layer_norm(hidden))[0]
        return embeddings
