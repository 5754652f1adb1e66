"""Alignment by the cross-attention of Whisper's decoder.

As in openai/whisper (`find_alignment` in `whisper/timing.py`) and in transformers: some heads of
the cross-attention follow the speech. Their weights over the audio's positions are normalised over
the tokens, smoothed, and averaged; the cheapest path through them gives each token the position at
which it begins. The first token begins where its own weights reach half of their maximum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil
from typing import Any

import torch
from torch.nn import functional
from transformers.models.whisper.configuration_whisper import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperDecoder

from auricle.annotation.alignment import first_columns
from auricle.checkpoints.alignment import alignment_heads
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.text_model import text_weights
from auricle.checkpoints.whole_chunks import POSITION_MS, positions_attended
from auricle.process.device import DeviceModel
from auricle.workers.align.utterances import Utterance


class CrossAttentionAligner(DeviceModel):
    """Aligns texts with audio. Call it from one worker thread.

    Raises CheckpointError if the weights do not match the config.
    """

    def __init__(self, checkpoint: ModelCheckpoint, dtype: str, device: str, threads: int) -> None:
        super().__init__(dtype, device, threads)
        config = WhisperConfig(**json.loads((checkpoint.path / "config.json").read_text()))
        config._attn_implementation = "sdpa"
        self._heads = int(config.decoder_attention_heads)
        self._aligning = alignment_heads(checkpoint.path, config.decoder_layers, self._heads)
        self._smoothed = int(config.median_filter_width)
        self._positions = checkpoint.geometry.window_embeddings
        self._width = checkpoint.geometry.hidden_size
        self._model: Any = WhisperDecoder(config)
        self._load(self._model, text_weights(checkpoint)[0], "decoder")

    def warm_up(self) -> None:
        """Align a token with a second of silence. Raises whatever the device raises."""
        audio = torch.zeros(self._positions, self._width)
        self.marks([Utterance(audio, (0, 0), lead=1, audio_ms=1000)])

    def joined(self, windows: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(positions_attended(windows))

    def marks(self, utterances: Sequence[Utterance]) -> list[list[int]]:
        """Run one pass; returns the position of each token's begin, and of the text's end.

        Raises ArithmeticError for values that are not finite.
        """
        # The token before the text attends to the audio of the first one of the text.
        weights = [
            found[:, max(one.lead - 1, 0) :]
            for found, one in zip(self._weights(utterances), utterances, strict=True)
        ]
        if not all(bool(torch.isfinite(one).all()) for one in weights):
            raise ArithmeticError("the aligner produced values that are not finite")
        return [self._times(one) for one in weights]

    @torch.inference_mode()
    def _weights(self, utterances: Sequence[Utterance]) -> list[torch.Tensor]:
        """Return the weights of the aligning heads, (heads, tokens, segment's positions) each.

        Shorter utterances are padded at the end, which causal self-attention ignores.
        """
        model = self._model
        longest = max(len(one.after) for one in utterances)
        ids = torch.zeros(len(utterances), longest, dtype=torch.long)
        for row, one in enumerate(utterances):
            ids[row, : len(one.after)] = torch.tensor(one.after)
        audio = torch.stack([one.audio for one in utterances]).to(self._device, self._dtype)
        hidden = model.embed_tokens(ids.to(self._device)) + model.embed_positions.weight[:longest]
        found: list[list[torch.Tensor]] = [[] for _ in utterances]
        last = max(self._aligning)
        for number, layer in enumerate(model.layers[: last + 1]):
            own, cross = layer.self_attn, layer.encoder_attn
            normed = layer.self_attn_layer_norm(hidden)
            queries, keys, values = (
                self._split(project(normed)) for project in (own.q_proj, own.k_proj, own.v_proj)
            )
            mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            hidden = hidden + own.out_proj(_merged(mixed))
            queries = self._split(cross.q_proj(layer.encoder_attn_layer_norm(hidden)))
            keys = self._split(cross.k_proj(audio))
            if heads := self._aligning.get(number):
                scores = queries[:, heads] @ keys[:, heads].transpose(2, 3) * cross.scaling
                for row, one in enumerate(utterances):
                    rows = scores[row, :, : len(one.after)].float().softmax(-1)
                    found[row].append(rows[..., : self._segment_positions(one)])
            if number == last:
                break
            mixed = functional.scaled_dot_product_attention(
                queries, keys, self._split(cross.v_proj(audio))
            )
            hidden = hidden + cross.out_proj(_merged(mixed))
            hidden = hidden + layer.fc2(functional.gelu(layer.fc1(layer.final_layer_norm(hidden))))
        return [torch.cat(one) for one in found]

    def _times(self, weights: torch.Tensor) -> list[int]:
        found = first_columns(-self._evidence(weights).double().cpu().numpy())
        # The path begins with the segment, the text with the voice.
        first = _median(weights[:, :1], self._smoothed).mean(0)[0, : max(found[1], 1)]
        found[0] = int((first >= first.max() / 2).int().argmax())
        return found

    def _evidence(self, weights: torch.Tensor) -> torch.Tensor:
        """Return the score of each position for each token, (tokens, positions)."""
        deviation = weights.std(1, keepdim=True, unbiased=False)
        normal = (weights - weights.mean(1, keepdim=True)) / deviation.clamp(
            min=torch.finfo(torch.float32).tiny
        )
        return _median(normal, self._smoothed).mean(0)

    def _segment_positions(self, utterance: Utterance) -> int:
        return min(max(1, ceil(utterance.audio_ms / POSITION_MS)), self._positions)

    def _split(self, rows: torch.Tensor) -> torch.Tensor:
        """Reshape (utterances, rows, width) to (utterances, heads, rows, head width)."""
        return rows.view(*rows.shape[:2], self._heads, -1).transpose(1, 2)


def _merged(mixed: torch.Tensor) -> torch.Tensor:
    return mixed.transpose(1, 2).flatten(2)


def _median(rows: torch.Tensor, width: int) -> torch.Tensor:
    """Return medians of `width` neighbours along the last dimension, mirrored at its ends."""
    around = width // 2
    if rows.shape[-1] <= around:
        return rows
    return functional.pad(rows, (around, around), "reflect").unfold(-1, width, 1).median(-1).values
