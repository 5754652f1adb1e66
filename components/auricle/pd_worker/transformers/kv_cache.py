"""A static KV cache: memory of all slots is allocated once, and passes write into it in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class _Layer(CacheLayerMixin):
    """One layer's part of a slot: keys and values (1, heads, tokens, width).

    transformers' own static layer attends over all of its memory, filled or not; this one
    returns what is filled.
    """

    is_croppable = True
    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, filled: int) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.is_initialized = True
        self._filled = filled

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the memory is there."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write what is new behind what is filled; returns views of all that is filled then."""
        begin, self._filled = self._filled, self._filled + key_states.shape[-2]
        self.keys[:, :, begin : self._filled] = key_states
        self.values[:, :, begin : self._filled] = value_states
        return self.keys[:, :, : self._filled], self.values[:, :, : self._filled]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._filled + query_length, 0

    def get_seq_length(self) -> int:
        return self._filled

    def get_max_length(self) -> int:
        return int(self.keys.shape[-2])


class StaticKv:
    """KV of `slots` prompts of up to `tokens` tokens, in `layers` of so many heads and widths."""

    def __init__(
        self,
        layers: Sequence[tuple[int, int]],
        slots: int,
        tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        # Not zeroed: nothing is read before it is written, and a CPU then takes no memory for it.
        self._layers = [
            tuple(
                torch.empty((slots, heads, tokens, width), dtype=dtype, device=device)
                for _ in range(2)
            )
            for heads, width in layers
        ]

    def slot(self, number: int, filled: int) -> Cache:
        """Return a slot whose first `filled` tokens are there; passes append to it."""
        one = slice(number, number + 1)
        return Cache(layers=[_Layer(k[one], v[one], filled) for k, v in self._layers])
