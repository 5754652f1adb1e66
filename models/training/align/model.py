"""The trainable aligner: transformers' Qwen3ASRForTokenClassification, with its hidden states.

Published checkpoints name the parts differently; `PARTS` maps their names to transformers'.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import Qwen3Config
from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASRConfig
from transformers.models.qwen3_asr.modeling_qwen3_asr import Qwen3ASRForTokenClassification

PARTS = {
    "thinker.audio_tower.proj1.": "model.multi_modal_projector.linear_1.",
    "thinker.audio_tower.proj2.": "model.multi_modal_projector.linear_2.",
    "thinker.audio_tower.": "model.audio_tower.",
    "thinker.model.": "model.language_model.",
    "thinker.lm_head.": "score.",
}
_ENCODER_ONLY = ("model_type", "conv_chunksize", "max_source_positions", "num_hidden_layers")


@dataclass(frozen=True)
class Pass:
    """`layers[i]` is (batch, n, hidden) after i text layers, the last one normalised.

    `attention[i]` is layer i's (batch, heads, n, n), None unless requested.
    """

    layers: tuple[torch.Tensor, ...]
    attention: tuple[torch.Tensor, ...] | None


class Aligner(nn.Module):
    """Mels and prompts in, hidden states out; `bins` scores them."""

    def __init__(self, config: dict[str, Any], *, attention: str = "sdpa") -> None:
        super().__init__()
        thinker = config["thinker_config"]
        audio = {k: v for k, v in thinker["audio_config"].items() if k not in _ENCODER_ONLY}
        text = Qwen3Config(**thinker["text_config"])
        self.config = Qwen3ASRConfig(
            audio_config=audio,
            text_config=text.to_dict(),
            audio_token_id=thinker["audio_token_id"],
            timestamp_token_id=config["timestamp_token_id"],
            num_labels=thinker["classify_num"],
            attn_implementation=attention,
        )
        self.timestamp = config["timestamp_token_id"]
        self.core = Qwen3ASRForTokenClassification(self.config)

    def embed_audio(self, mels: list[torch.Tensor]) -> torch.Tensor:
        """Mels of (128, n_i) → (sum of embedding counts, hidden), in order."""
        longest = -(-max(m.shape[1] for m in mels) // 100) * 100
        features = mels[0].new_zeros(len(mels), 128, longest)
        mask = torch.zeros(len(mels), longest, dtype=torch.long)
        for row, mel in enumerate(mels):
            features[row, :, : mel.shape[1]] = mel
            mask[row, : mel.shape[1]] = 1
        return cast(torch.Tensor, self.core.model.get_audio_features(features, mask).pooler_output)

    def forward(
        self, audio: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor, *, seen: bool = False
    ) -> Pass:
        """`ids` (batch, n) has one audio placeholder per row of `audio`; padding is on the right.

        `seen` requests the attention, which needs `attention="eager"`.
        """
        embeds = self.core.model.language_model.embed_tokens(ids)
        places = (ids == self.config.audio_token_id)[..., None]
        embeds = embeds.masked_scatter(places, audio.to(embeds.dtype))
        found = self.core.model.language_model(
            inputs_embeds=embeds,
            attention_mask=mask,
            use_cache=False,
            output_hidden_states=True,
            output_attentions=seen,
        )
        return Pass(found.hidden_states, found.attentions if seen else None)

    def bins(self, hidden: torch.Tensor) -> torch.Tensor:
        """(…, hidden) → (…, bins) scores."""
        return cast(torch.Tensor, self.core.score(hidden))

    def norm(self, hidden: torch.Tensor) -> torch.Tensor:
        """The last layer's normalisation, for the scores of an earlier one."""
        return cast(torch.Tensor, self.core.model.language_model.norm(hidden))

    def published_weights(self) -> dict[str, torch.Tensor]:
        """State dict in the original naming, bfloat16."""
        weights = {}
        for name, value in self.core.state_dict().items():
            old, new = next((o, n) for o, n in PARTS.items() if name.startswith(n))
            weights[old + name.removeprefix(new)] = value.to(torch.bfloat16).contiguous()
        return weights

    def load_published(self, path: Path) -> None:
        """Load a checkpoint in the original naming; everything must be there."""
        self.core.load_state_dict(transformers_weights(load_file(path)))

    def begin_from(self, path: Path) -> None:
        """Initialise the encoder and text layers from an ASR checkpoint of the same widths.

        Additional layers contribute nothing at first. Their queries equal their keys, so a word
        attends to the audio that the layers below have encoded as that word.
        """
        weights = transformers_weights(load_file(path))
        own = self.core.state_dict()
        self.core.load_state_dict({k: weights.get(k, v) for k, v in own.items()})
        known = sum(k.endswith("input_layernorm.weight") for k in weights)
        for layer in self.core.model.language_model.layers[known:]:
            nn.init.zeros_(layer.self_attn.o_proj.weight)
            nn.init.zeros_(layer.mlp.down_proj.weight)
            keys = layer.self_attn.k_proj.weight.detach().unflatten(
                0, (-1, layer.self_attn.head_dim)
            )
            sharing = layer.self_attn.num_key_value_groups
            with torch.no_grad():
                layer.self_attn.q_proj.weight.copy_(
                    keys.repeat_interleave(sharing, 0).flatten(0, 1)
                )


def transformers_weights(published: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """float32 weights under transformers' names."""
    weights = {}
    for name, value in published.items():
        old = next(part for part in PARTS if name.startswith(part))
        weights[PARTS[old] + name.removeprefix(old)] = value.float()
    return weights
