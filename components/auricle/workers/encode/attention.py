"""Attention within the windows of a pass, which are concatenated without padding.

transformers splits them in Python: three device transfers per layer for their lengths, and one
kernel per window. On a CPU that is the fewest operations. On a GPU, a pass of 32 windows would need
600 launches and wait for each transfer, so there all windows take one kernel per layer:

varlen   FlashAttention with the windows' bounds (`torch.nn.attention.varlen`); half precision only
padded   windows as rows of a batch, padded to the longest, with a mask; any precision

Each is registered with transformers under a name with "flash", so that its modules pass on the
bounds instead of splitting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

import torch
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

Attention = Literal["per_window", "varlen", "padded"]
_NAMES: dict[Attention, str] = {
    "per_window": "sdpa",
    "varlen": "flash_auricle_varlen",
    "padded": "flash_auricle_padded",
}
_HALF = (torch.bfloat16, torch.float16)


def attention_for(device: torch.device, dtype: torch.dtype) -> Attention:
    if device.type != "cuda":
        return "per_window"
    return "varlen" if dtype in _HALF else "padded"


def use(attention: Attention, encoder: Any) -> None:
    if attention != "per_window":
        function = _varlen if attention == "varlen" else _padded
        ALL_ATTENTION_FUNCTIONS.register(_NAMES[attention], function)
    for config in (encoder.config, *(layer.self_attn.config for layer in encoder.layers)):
        config._attn_implementation = _NAMES[attention]


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


def _varlen(
    _module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """A transformers attention function; inputs are (1, heads, rows, width)."""
    assert cu_seq_lens_q is not None and max_length_q is not None
    queries, keys, values = (one[0].transpose(0, 1).contiguous() for one in (query, key, value))
    if query.device.type == "cpu":
        return _reference(queries, keys, values, cu_seq_lens_q, scaling)[None], None
    from torch.nn.attention.varlen import varlen_attn  # registers operators for GPUs

    bounds, longest = (cu_seq_lens_q, cu_seq_lens_q), (max_length_q, max_length_q)
    attended = varlen_attn(queries, keys, values, *bounds, *longest, scale=scaling)
    assert isinstance(attended, torch.Tensor)
    return attended[None], None


def _reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    ends: torch.Tensor,
    scale: float | None,
) -> torch.Tensor:
    """The kernel's result on a CPU; inputs are (rows, heads, width)."""
    attended = torch.zeros_like(query)
    for begin, end in pairwise(ends.tolist()):
        if begin == end:
            continue
        q, k, v = (one[begin:end].transpose(0, 1)[None] for one in (query, key, value))
        own = functional.scaled_dot_product_attention(q, k, v, scale=scale)
        attended[begin:end] = own[0].transpose(0, 1)
    return attended


def _padded(
    _module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    max_length_q: int | None = None,
    places: torch.Tensor | None = None,
    real: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """A transformers attention function; `places` and `real` as in `Windows`."""
    assert places is not None and real is not None and max_length_q is not None
    queries, keys, values = (
        _batched(one, places, len(real), max_length_q) for one in (query, key, value)
    )
    attended = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=real, scale=scaling
    )
    rows = attended.transpose(1, 2).flatten(0, 1)[places]  # (rows, heads, width)
    return rows[None], None


def _batched(rows: torch.Tensor, places: torch.Tensor, count: int, longest: int) -> torch.Tensor:
    """Scatter (1, heads, rows, width) to (count, heads, longest, width)."""
    _, heads, _, width = rows.shape
    filled = rows.new_zeros(count * longest, heads, width)
    filled[places] = rows[0].transpose(0, 1)
    return filled.view(count, longest, heads, width).transpose(1, 2)
