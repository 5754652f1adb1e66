"""A layer of Gemma 4's audio encoder over new positions, given what it had of those before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Past:
    """What later positions need of a layer; zeros where there was nothing yet.

    `keys` and `values` are (past, width), of which the last `there` exist; `inputs` of the
    convolution are (taps, width).
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
    # (n, heads, width, span): of each position those that it attends to, itself last.
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
