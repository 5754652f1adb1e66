"""Conv outputs of finished one-second blocks, by content. One event loop owns it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import torch


class ConvCache:
    """At most `count` blocks, least recently used first out; tensors (length, d_model)."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._outputs: OrderedDict[str, torch.Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._outputs)

    def find(self, key: str) -> torch.Tensor | None:
        """The block's conv output, now most recently used; None if it is not here."""
        output = self._outputs.get(key)
        if output is not None:
            self._outputs.move_to_end(key)
        return output

    def keep(self, outputs: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Remember conv outputs of blocks that will be asked for again."""
        for key, output in outputs:
            self._outputs[key] = output
            self._outputs.move_to_end(key)
        while len(self._outputs) > self._count:
            self._outputs.popitem(last=False)
