"""How far blocks are filled with zeros before the conv stack. Pure.

The published code fills every block to a whole chunk. Three convolutions of kernel 3
and stride 2 look 7 frames ahead: output row j depends on frames up to 8j + 7. Filling
up to 8 frames beyond a block's last row gives that row, and all before it, the very
same inputs, so shorter blocks need not pay for a whole second.
"""

from __future__ import annotations

from collections.abc import Sequence

_STRIDE = 8


def padded_lengths(frames: Sequence[int], chunk: int) -> list[int]:
    """Of each block of a batch: whole chunks as they are, all others as the longest of them."""
    rows = max((-(-n // _STRIDE) for n in frames if n < chunk), default=0)
    short = min(chunk, (rows + 1) * _STRIDE)
    return [chunk if n == chunk else short for n in frames]
