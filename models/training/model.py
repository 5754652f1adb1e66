"""The trainable model: transformers' Qwen3-ASR encoder and projector, and Qwen3."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.audio_utils import mel_filter_bank
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig
from transformers.models.qwen3_asr.modeling_qwen3_asr import (
    Qwen3ASREncoder,
    Qwen3ASRMultiModalProjector,
)

FRAME_SAMPLES = 160


class LogMel(nn.Module):
    """Whisper's log-mel (128 bins, n_fft 400, hop 160), as the checkpoints expect it."""

    def __init__(self) -> None:
        super().__init__()
        filters = mel_filter_bank(201, 128, 0.0, 8000.0, 16_000, norm="slaney", mel_scale="slaney")
        self.register_buffer("filters", torch.from_numpy(filters).float(), persistent=False)
        self.register_buffer("window", torch.hann_window(400), persistent=False)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """(n,) float32 at 16 kHz → (128, n // 160)."""
        stft = torch.stft(samples, 400, FRAME_SAMPLES, window=self.window, return_complex=True)
        power = stft[:, :-1].abs() ** 2
        log_mel = (self.filters.T @ power).clamp_min(1e-10).log10()
        return (log_mel.maximum(log_mel.max() - 8.0) + 4.0) / 4.0


class DemoModel(nn.Module):
    """Audio features and token ids in, logits and projected audio embeddings out."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        thinker = config["thinker_config"]
        audio = {k: v for k, v in thinker["audio_config"].items() if k != "model_type"}
        for name in ("conv_chunksize", "max_source_positions", "num_hidden_layers"):
            audio.pop(name)
        text = Qwen3Config(**thinker["text_config"])
        self.config = Qwen3ASRConfig(audio_config=audio, text_config=text.to_dict())
        self.audio_token_id = thinker["audio_token_id"]
        self.encoder = Qwen3ASREncoder(cast(Any, self.config.audio_config))
        self.projector = Qwen3ASRMultiModalProjector(self.config)
        self.text = Qwen3ForCausalLM(text)

    def embed_audio(self, mels: list[torch.Tensor]) -> torch.Tensor:
        """Mels of (128, n_i) → (sum of embedding counts, hidden), in order."""
        longest = -(-max(m.shape[1] for m in mels) // 100) * 100
        features = mels[0].new_zeros(len(mels), 128, longest)
        mask = torch.zeros(len(mels), longest, dtype=torch.long)
        for row, mel in enumerate(mels):
            features[row, :, : mel.shape[1]] = mel
            mask[row, : mel.shape[1]] = 1
        hidden = self.encoder(input_features=features, input_features_mask=mask).last_hidden_state
        return cast(torch.Tensor, self.projector(hidden))

    def forward(self, audio: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`ids` (batch, n) with one audio placeholder per row of `audio` → final hidden states."""
        embeds = self.text.model.embed_tokens(ids)
        embeds = embeds.masked_scatter(
            (ids == self.audio_token_id)[..., None], audio.to(embeds.dtype)
        )
        return cast(
            torch.Tensor,
            self.text.model(inputs_embeds=embeds, attention_mask=mask).last_hidden_state,
        )

    def published_weights(self) -> dict[str, torch.Tensor]:
        """State dict in the original Qwen3-ASR naming, bfloat16."""
        weights: dict[str, torch.Tensor] = {}
        for name, value in self.encoder.state_dict().items():
            weights[f"thinker.audio_tower.{name}"] = value
        for old, new in (("linear_1", "proj1"), ("linear_2", "proj2")):
            for part in ("weight", "bias"):
                weights[f"thinker.audio_tower.{new}.{part}"] = self.projector.state_dict()[
                    f"{old}.{part}"
                ]
        for name, value in self.text.model.state_dict().items():
            weights[f"thinker.model.{name}"] = value
        return {name: value.to(torch.bfloat16).contiguous() for name, value in weights.items()}


def audio_length(frames: int) -> int:
    """Embeddings of `frames` mel frames: 13 a full second, then three convolutions of the rest."""
    rest = frames % 100
    for _ in range(3):
        rest = (rest + 1) // 2
    return frames // 100 * 13 + rest
