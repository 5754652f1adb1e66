"""The causal Gemma 4 encoder with transformers' modules.

A block is computed once, from its frames and the state after the previous block: the last frames,
and in each layer the keys, values and convolution inputs that later positions need. transformers'
own model computes everything from the beginning each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers.models.gemma4.configuration_gemma4 import Gemma4AudioConfig, Gemma4TextConfig
from transformers.models.gemma4.modeling_gemma4 import (
    Gemma4AudioModel,
    Gemma4MultimodalEmbedder,
)

from auricle.audio.constants import BINS
from auricle.checkpoints.causal import FRAMES_PER_POSITION, STEM_FRAMES, Causal
from auricle.checkpoints.files import ModelCheckpoint
from auricle.core.errors import CheckpointError
from auricle.process.device import config_of
from auricle.workers.encode.encoder import AudioEncoder, MelBlock, MelWindow


@dataclass(frozen=True)
class Past:
    """A layer's state for later positions, padded with zeros at the begin of a segment.

    `keys` and `values` are (past, width), with the last `there` valid; the convolution's `inputs`
    are (taps, width).
    """

    keys: torch.Tensor
    values: torch.Tensor
    inputs: torch.Tensor
    there: int


def layer_over(
    layer: Any, positions: Any, hidden: torch.Tensor, past: Past, ends: Sequence[int]
) -> tuple[torch.Tensor, list[Past]]:
    """Run a `Gemma4AudioLayer` over (n, width); also returns its past at each of `ends`.

    `positions` is the model's `Gemma4AudioRelPositionalEncoding`.
    """
    bound = min(layer.gradient_clipping, torch.finfo(layer.norm_pre_attn.weight.dtype).max)
    hidden = layer.feed_forward1(hidden)
    residual = hidden
    normed = layer.norm_pre_attn(hidden.clamp(-bound, bound))
    attended, keys, values = _attend(layer.self_attn, positions, normed, past)
    hidden = layer.norm_post_attn(attended.clamp(-bound, bound)) + residual
    hidden, inputs = _convolve(layer.lconv1d, hidden, past.inputs)
    hidden = layer.feed_forward2(hidden)
    hidden = layer.norm_out(hidden.clamp(-bound, bound))
    span, taps = len(past.keys), len(past.inputs)
    pasts = [
        Past(
            keys[end : end + span].clone(),
            values[end : end + span].clone(),
            inputs[end : end + taps].clone(),
            min(span, past.there + end),
        )
        for end in ends
    ]
    return hidden, pasts


def _attend(
    attention: Any, positions: Any, hidden: torch.Tensor, past: Past
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Let each position attend to itself and the `past` before it.

    Returns (n, width), and keys and values of the past and of all positions, (past + n, width).
    """
    heads, width = attention.num_heads, attention.head_dim
    queries = attention.q_proj(hidden).float().view(-1, heads, width)
    queries = queries * attention.q_scale * functional.softplus(attention.per_dim_scale)
    keys = torch.cat([past.keys, attention.k_proj(hidden)])
    values = torch.cat([past.values, attention.v_proj(hidden)])
    span = len(past.keys) + 1
    # (n, heads, width, span): the attended positions of each position, itself last.
    near_keys, near_values = (
        one.view(-1, heads, width).unfold(0, span, 1)
        for one in (keys.float() * attention.k_scale, values.float())
    )
    logits = torch.einsum("nhd,nhds->nhs", queries, near_keys)
    # The encoding has one row for each distance, the largest first; `span` is the largest.
    distances = attention.relative_k_proj(positions(hidden)[0])[-span:]
    relative = distances.view(span, heads, width).to(queries.dtype)
    logits = logits + torch.einsum("nhd,shd->nhs", queries, relative)
    logits = torch.tanh(logits / attention.softcap) * attention.softcap
    first = torch.arange(len(hidden), device=hidden.device)[:, None] + past.there - span + 1
    missing = first + torch.arange(span, device=hidden.device) < 0
    logits = logits.masked_fill(missing[:, None], attention.config.attention_invalid_logits_value)
    weights = functional.softmax(logits, dim=-1, dtype=torch.float32)
    found = torch.einsum("nhs,nhds->nhd", weights, near_values)
    return attention.post(found.reshape(len(hidden), -1).to(hidden.dtype)), keys, values


def _convolve(
    module: Any, hidden: torch.Tensor, past: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run a `Gemma4AudioLightConv1d`; also returns the convolution's inputs with the past."""
    gated = functional.glu(module.linear_start(module.pre_layer_norm(hidden)), dim=-1)
    inputs = torch.cat([past, gated])
    conv = module.depthwise_conv1d
    found = functional.conv1d(inputs.T[None], conv.weight, groups=conv.groups)[0].T
    bound = min(module.gradient_clipping, torch.finfo(found.dtype).max)
    found = module.act_fn(module.conv_norm(found.clamp(-bound, bound)))
    return module.linear_end(found) + hidden, inputs


@dataclass(frozen=True)
class BlockOutput:
    """A block's rows (positions, d_model), and the state for the next block."""

    rows: torch.Tensor
    frames: torch.Tensor
    past: tuple[Past, ...]


class CausalEncoder(AudioEncoder):
    def __init__(self, checkpoint: ModelCheckpoint, dtype: str, device: str, threads: int) -> None:
        super().__init__(checkpoint, dtype, device, threads)
        if not isinstance(checkpoint.geometry, Causal):
            raise CheckpointError(f"{checkpoint.path} has no causal encoder")
        self._geometry = checkpoint.geometry
        config = Gemma4AudioConfig(**config_of(Gemma4AudioConfig, checkpoint.audio_config))
        self._encoder: Any = Gemma4AudioModel(config)
        width = Gemma4TextConfig(hidden_size=checkpoint.geometry.hidden_size)
        self._projector = Gemma4MultimodalEmbedder(config, width)
        self._load_audio(checkpoint, self._encoder, self._projector)

    @torch.inference_mode()
    def convolve(self, blocks: Sequence[MelBlock]) -> list[BlockOutput]:
        """Compute blocks; a chain of consecutive blocks takes one pass."""
        found: dict[int, BlockOutput] = {}
        for chain in _chains(blocks):
            after = blocks[chain[0]].after
            before = found[_index(blocks, after)] if isinstance(after, MelBlock) else after
            outputs = self._encoded([blocks[at] for at in chain], before)
            found |= dict(zip(chain, outputs, strict=True))
        return [found[at] for at in range(len(blocks))]

    @torch.inference_mode()
    def attend(self, windows: Sequence[Sequence[BlockOutput]]) -> list[torch.Tensor]:
        """Project windows, given as their blocks; returns (length_i, hidden_size) per window."""
        lengths = [sum(len(block.rows) for block in blocks) for blocks in windows]
        rows = torch.cat([block.rows for blocks in windows for block in blocks])
        embeddings = self._projector(self._encoder.output_proj(rows))
        return list(torch.split(embeddings, lengths))

    def blocks(self, window: MelWindow) -> list[MelBlock]:
        linked: list[MelBlock] = []
        for block in super().blocks(window):
            linked.append(replace(block, after=linked[-1] if linked else None))
        return linked

    def _encoded(self, blocks: Sequence[MelBlock], before: BlockOutput | None) -> list[BlockOutput]:
        new = np.concatenate([block.frames for block in blocks])
        frames = torch.from_numpy(new).to(self._device, self._dtype)
        earlier = frames.new_zeros(STEM_FRAMES, BINS) if before is None else before.frames
        frames = torch.cat([earlier, frames])
        hidden = self._stem(frames)
        lengths = [self._geometry.embeddings(len(block.frames)) for block in blocks]
        ends = np.cumsum(lengths).tolist()
        pasts: list[list[Past]] = [[] for _ in blocks]
        for number, layer in enumerate(self._encoder.layers):
            past = self._beginning(hidden) if before is None else before.past[number]
            hidden, reached = layer_over(layer, self._encoder.rel_pos_enc, hidden, past, ends)
            for one, at in zip(pasts, reached, strict=True):
                one.append(at)
        last = np.cumsum([len(block.frames) for block in blocks]).tolist()
        return [
            BlockOutput(rows.clone(), frames[end : end + STEM_FRAMES].clone(), tuple(past))
            for rows, end, past in zip(torch.split(hidden, lengths), last, pasts, strict=True)
        ]

    def _beginning(self, hidden: torch.Tensor) -> Past:
        """Return a layer's state before the first position."""
        width, geometry = hidden.shape[1], self._geometry
        attended = hidden.new_zeros(geometry.past, width)
        return Past(attended, attended, hidden.new_zeros(geometry.taps, width), 0)

    def _stem(self, frames: torch.Tensor) -> torch.Tensor:
        """Subsample frames; the first `STEM_FRAMES` belong to the previous block.

        Returns (positions, d_model). After the last frame, the second convolution's input is zero,
        whatever the first one's output is.
        """
        stem = self._encoder.subsample_conv_projection
        own = len(frames) - STEM_FRAMES
        positions = -(-own // FRAMES_PER_POSITION)
        behind = positions * FRAMES_PER_POSITION - own
        hidden = functional.pad(frames, (0, 0, 0, behind))[None, None]
        hidden = _halved(stem.layer0, hidden)
        hidden[:, :, 1 + -(-own // 2) :] = 0  # the first row is before the positions
        hidden = _halved(stem.layer1, hidden)
        rows: torch.Tensor = stem.input_proj_linear(
            hidden[0].permute(1, 2, 0).reshape(positions, -1)
        )
        return rows


def _halved(layer: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Run a layer of the stem over (1, channels, time, bins) without padding in time."""
    hidden = functional.conv2d(hidden, layer.conv.weight, stride=2, padding=(0, 1))
    normed = layer.norm(hidden.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    halved: torch.Tensor = layer.act(normed)
    return halved


def _chains(blocks: Sequence[MelBlock]) -> list[list[int]]:
    """Divide the blocks' indices into chains of consecutive blocks, predecessors first."""
    chains: list[list[int]] = []
    by_last: dict[int, list[int]] = {}  # by the identity of their last block
    for at, block in enumerate(blocks):
        chain = by_last.pop(id(block.after), None) if block.after is not None else None
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append(at)
        by_last[id(block)] = chain
    return chains


def _index(blocks: Sequence[MelBlock], wanted: MelBlock) -> int:
    return next(at for at, block in enumerate(blocks) if block is wanted)
