"""How far blocks are padded with zeros before the conv stack. No I/O.

The published code pads every block to a whole second. Three convolutions of kernel 3 and
stride 2 look 7 frames ahead: output row j depends on frames up to 8j + 7. Padding by one
further row therefore gives every row exactly the same inputs, and short blocks need not
cost as much as a whole second.
"""

from __future__ import annotations

from collections.abc import Sequence

_STRIDE = 8


def padded_lengths(frames: Sequence[int], block_frames: int) -> list[int]:
    """Return each block's padded length: a whole block's own, the same for all shorter ones."""
    rows = max((-(-n // _STRIDE) for n in frames if n < block_frames), default=0)
    short = min(block_frames, (rows + 1) * _STRIDE)
    return [block_frames if n == block_frames else short for n in frames]
