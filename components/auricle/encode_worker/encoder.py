"""Mel windows → embeddings, with transformers' own Qwen3-ASR encoder modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig
from transformers.models.qwen3_asr.modeling_qwen3_asr import (
    Qwen3ASREncoder,
    Qwen3ASRMultiModalProjector,
)

from auricle.audio.mel import BINS, normalise
from auricle.checkpoint.files import Checkpoint, audio_weights
from auricle.errors import CheckpointError

# Keys of the original config that transformers' encoder does not have.
_DROPPED_KEYS = frozenset(
    {"model_type", "architectures", "conv_chunksize", "max_source_positions", "num_hidden_layers"}
)
_TORCH_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class MelWindow:
    """Unclamped log-mel (frames, 128) float32 of one window, and the segment's clamp floor."""

    frames: npt.NDArray[np.float32]
    floor: float


class Encoder:
    """The audio half of a checkpoint. Not thread-safe: one thread calls it."""

    def __init__(self, checkpoint: Checkpoint, dtype: str, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        known = Qwen3ASRConfig().audio_config.to_dict().keys()
        audio = {
            k: v
            for k, v in checkpoint.audio_config.items()
            if k in known and k not in _DROPPED_KEYS
        }
        config = Qwen3ASRConfig(audio_config=audio, text_config=dict(checkpoint.text_config))
        config.audio_config._attn_implementation = "sdpa"  # transformers' own switch
        self._encoder = Qwen3ASREncoder(config.audio_config)
        self._projector = Qwen3ASRMultiModalProjector(config)
        encoder, projector = audio_weights(checkpoint)
        _load(self._encoder, encoder, "audio encoder")
        _load(self._projector, projector, "projector")
        self._dtype = _TORCH_DTYPES[dtype]
        self._device = torch.device(device)
        for module in (self._encoder, self._projector):
            module.to(self._device, self._dtype).eval()
        self._chunk = checkpoint.geometry.chunk_frames
        self._embeddings = checkpoint.geometry.embeddings

    @torch.inference_mode()
    def encode(self, windows: Sequence[MelWindow]) -> list[torch.Tensor]:
        """One forward pass; (length_i, hidden) per window, on the encoder's device.

        Each window is padded with zeros to a whole number of chunks: the conv
        stack must see full chunks or the last one's embeddings differ.
        """
        longest = max(len(w.frames) for w in windows)
        padded = -(-longest // self._chunk) * self._chunk
        features = torch.zeros(len(windows), BINS, padded)
        mask = torch.zeros(len(windows), padded, dtype=torch.long)
        for row, window in enumerate(windows):
            count = len(window.frames)
            features[row, :, :count] = torch.from_numpy(normalise(window.frames, window.floor).T)
            mask[row, :count] = 1
        hidden = self._encoder(
            input_features=features.to(self._device, self._dtype),
            input_features_mask=mask.to(self._device),
        ).last_hidden_state
        embeddings = self._projector(hidden)
        return list(embeddings.split([self._embeddings(len(w.frames)) for w in windows]))


def _load(module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
    missing, unexpected = module.load_state_dict(weights, strict=False)
    if missing or unexpected:
        raise CheckpointError(
            f"the weights of the {what} do not fit its config: missing {sorted(missing)[:3]}, "
            f"unexpected {sorted(unexpected)[:3]}"
        )
