"""Attention within the windows of a pass, which are concatenated without padding.

transformers splits them in Python: three device transfers per layer for their lengths, and one
kernel per window. On a CPU that is the fewest operations. On a GPU, a pass of 32 windows would need
600 launches and wait for each transfer, so there all windows take one kernel per layer:

varlen   FlashAttention with the windows' bounds (`torch.nn.attention.varlen`); half precision only
padded   windows as rows of a batch, padded to the longest, with a mask; any precision

There they replace transformers' modules, with one projection to queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

Attention = Literal["per_window", "varlen", "padded"]
_HALF = (torch.bfloat16, torch.float16)


def attention_for(device: torch.device, dtype: torch.dtype) -> Attention:
    if device.type != "cuda":
        return "per_window"
    return "varlen" if dtype in _HALF else "padded"


def use(attention: Attention, encoder: Any) -> None:
    """Replace the attention modules of transformers' encoder, whose weights are loaded."""
    if attention != "per_window":
        for layer in encoder.layers:
            layer.self_attn = OneKernelAttention(layer.self_attn, attention)


@dataclass(frozen=True)
class Windows:
    """The positions of the windows in a pass, on its device; the same for all layers.

    `ends` (windows + 1) are their bounds. For `padded`: `places` (rows) is each row's index in a
    batch of windows × `longest`, and `real` (windows, 1, 1, longest) its mask.
    """

    ends: torch.Tensor
    longest: int
    places: torch.Tensor | None = None
    real: torch.Tensor | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], attention: Attention, device: torch.device) -> Windows:
        """Return the positions for windows of these lengths, without device synchronization."""
        longest = max(lengths)
        ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        if attention != "padded":
            return cls(to_device(ends, device), longest)
        columns = torch.arange(longest)
        real = columns[None, :] < torch.tensor(lengths)[:, None]
        places = real.reshape(-1).nonzero()[:, 0]
        return cls(
            to_device(ends, device),
            longest,
            to_device(places, device),
            to_device(real[:, None, None, :], device),
        )

    @classmethod
    def within(
        cls, lengths: Sequence[int], windows: int, rows: int, longest: int, attention: Attention
    ) -> Windows:
        """Return, on the host, the positions in a bucket with at least these windows and rows.

        Extra windows are empty. Extra rows belong to no window; in `padded`'s batch they share the
        first place of an additional last window.
        """
        filled = torch.tensor([*lengths, *[0] * (windows - len(lengths))])
        ends = functional.pad(filled.cumsum(0), (1, 0)).to(torch.int32)
        if attention != "padded":
            return cls(ends, longest)
        columns = torch.arange(longest)
        real = columns[None, :] < functional.pad(filled, (0, 1))[:, None]
        own = real.reshape(-1).nonzero()[:, 0]
        places = functional.pad(own, (0, rows - len(own)), value=windows * longest)
        real[:, 0] = True  # an empty window would give 0 / 0
        return cls(ends, longest, places, real[:, None, None, :])

    def copied(self, device: torch.device) -> Windows:
        places, real = (None if one is None else one.to(device) for one in (self.places, self.real))
        return Windows(self.ends.to(device), self.longest, places, real)

    def fill(self, other: Windows) -> None:
        """Overwrite with `other`, of the same shapes and on the host, without synchronization."""
        pairs = ((self.ends, other.ends), (self.places, other.places), (self.real, other.real))
        for own, new in pairs:
            if own is not None and new is not None:
                own.copy_(to_device(new, own.device), non_blocking=True)

    def arguments(self) -> dict[str, Any]:
        if self.places is None:
            return {"max_seqlen": self.longest}
        return {"max_seqlen": self.longest, "places": self.places, "real": self.real}


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a host tensor to a device without synchronization."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class OneKernelAttention(nn.Module):
    """Replaces a layer's attention module: all windows of a pass in one kernel."""

    def __init__(self, module: Any, attention: Attention) -> None:
        super().__init__()
        self._heads, self._scale = int(module.num_heads), float(module.scaling)
        self._padded = attention == "padded"
        projections = (module.q_proj, module.k_proj, module.v_proj)
        self._weight = nn.Buffer(torch.cat([one.weight.detach() for one in projections]))
        self._bias = nn.Buffer(torch.cat([one.bias.detach() for one in projections]))
        self._out = module.out_proj

    def forward(
        self,
        hidden_states: torch.Tensor,
        cu_seqlens: torch.Tensor,
        max_seqlen: int,
        places: torch.Tensor | None = None,
        real: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`hidden_states` are (rows, width); the others are as in `Windows`."""
        rows = len(hidden_states)
        projected = functional.linear(hidden_states, self._weight, self._bias)
        query, key, value = projected.view(rows, 3, self._heads, -1).unbind(1)
        if self._padded:
            assert places is not None and real is not None
            attended = _padded(query, key, value, (places, real, max_seqlen), self._scale)
        else:
            attended = _varlen(query, key, value, cu_seqlens, max_seqlen, self._scale)
        projection: torch.Tensor = self._out(attended.reshape(rows, -1))
        return projection


def _varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    ends: torch.Tensor,
    longest: int,
    scale: float,
) -> torch.Tensor:
    """Inputs and result are (rows, heads, width)."""
    if query.device.type == "cpu":
        return _reference(query, key, value, ends, scale)
    from torch.nn.attention.varlen import varlen_attn  # registers operators for GPUs

    bounds = (ends, ends, longest, longest)
    attended = varlen_attn(query, key, value, *bounds, scale=scale)
    assert isinstance(attended, torch.Tensor)
    return attended


def _reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    ends: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """The kernel's result on a CPU."""
    attended = torch.zeros_like(query)
    for begin, end in pairwise(ends.tolist()):
        if begin == end:
            continue
        q, k, v = (one[begin:end].transpose(0, 1)[None] for one in (query, key, value))
        own = functional.scaled_dot_product_attention(q, k, v, scale=scale)
        attended[begin:end] = own[0].transpose(0, 1)
    return attended


def _padded(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    batch: tuple[torch.Tensor, torch.Tensor, int],
    scale: float,
) -> torch.Tensor:
    """Inputs and result are (rows, heads, width); `batch` has places, mask and longest window."""
    places, real, longest = batch
    queries, keys, values = (
        _batched(one, places, len(real), longest) for one in (query, key, value)
    )
    attended = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=real, scale=scale
    )
    return attended.transpose(1, 2).flatten(0, 1)[places]


def _batched(rows: torch.Tensor, places: torch.Tensor, count: int, longest: int) -> torch.Tensor:
    """Scatter (rows, heads, width) to (count, heads, longest, width)."""
    filled = rows.new_zeros(count * longest, *rows.shape[1:])
    filled[places] = rows
    return filled.view(count, longest, *rows.shape[1:]).transpose(1, 2)
