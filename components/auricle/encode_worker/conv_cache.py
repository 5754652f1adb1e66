"""An LRU cache of what encoders make of finished blocks, by content key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from auricle.encode_worker.encoder import BlockOutput


class ConvCache:
    """Holds the outputs of up to `count` blocks.

    Not thread-safe: the event loop owns it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._outputs: OrderedDict[str, BlockOutput] = OrderedDict()

    def __len__(self) -> int:
        return len(self._outputs)

    def find(self, key: str) -> BlockOutput | None:
        """Return the block's output and mark it most recently used; None if it is not cached."""
        output = self._outputs.get(key)
        if output is not None:
            self._outputs.move_to_end(key)
        return output

    def keep(self, outputs: Iterable[tuple[str, BlockOutput]]) -> None:
        """Add outputs by block key, evicting the least recently used beyond `count`."""
        for key, output in outputs:
            self._outputs[key] = output
            self._outputs.move_to_end(key)
        while len(self._outputs) > self._count:
            self._outputs.popitem(last=False)
