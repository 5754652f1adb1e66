"""Shapes of passes: a pass is filled up to the next of a few, each of which is recorded. No I/O.

The transformer's have 1, 2, 4 … windows, and rows for a quarter, half, three quarters or all of
the embeddings that so many windows may have. The conv stack's have 1, 2, 4 … blocks of one of
four lengths: 24, 48, 72 or 100 frames of the published geometry.
"""

from __future__ import annotations

from dataclasses import dataclass

_QUARTERS = (1, 2, 3, 4)
_STRIDE = 8  # frames that become one row; lengths are multiples, as in padding.py
_BLOCKS_PER_WINDOW = 2  # of a live session at most; more, in recordings, take several passes


@dataclass(frozen=True)
class WindowBucket:
    """Room for windows, and for their embeddings one behind the other."""

    windows: int
    rows: int


@dataclass(frozen=True)
class BlockBucket:
    """Room for blocks, each padded to `frames`."""

    blocks: int
    frames: int


@dataclass(frozen=True)
class Buckets:
    """The shapes for passes of up to `most_windows`, of up to `window_rows` embeddings each."""

    most_windows: int
    window_rows: int
    block_frames: int

    def of_windows(self) -> list[WindowBucket]:
        """Return those of the transformer."""
        return [
            WindowBucket(windows, windows * -(-self.window_rows * quarter // 4))
            for windows in _powers(self.most_windows)
            for quarter in _QUARTERS
        ]

    def of_blocks(self) -> list[BlockBucket]:
        """Return those of the conv stack."""
        return [
            BlockBucket(blocks, frames)
            for blocks in _powers(self.most_blocks)
            for frames in self._lengths()
        ]

    @property
    def most_blocks(self) -> int:
        """Blocks of one pass of the conv stack at most."""
        return _BLOCKS_PER_WINDOW * _power(self.most_windows)

    def for_windows(self, windows: int, rows: int) -> WindowBucket | None:
        """Return the smallest that has room; None if there is none."""
        if windows > self.most_windows:
            return None
        count = _power(windows)
        fitting = (one for one in self.of_windows() if one.windows == count and one.rows >= rows)
        return next(fitting, None)

    def for_blocks(self, blocks: int, frames: int) -> BlockBucket:
        """Return the smallest that has room for up to `most_blocks` of a length."""
        return BlockBucket(_power(blocks), next(n for n in self._lengths() if n >= frames))

    def _lengths(self) -> list[int]:
        step = max(1, self.block_frames // 4 // _STRIDE) * _STRIDE
        shorter = (step * quarter for quarter in _QUARTERS[:-1])
        return [*(frames for frames in shorter if frames < self.block_frames), self.block_frames]


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _powers(most: int) -> list[int]:
    return [1 << power for power in range(_power(most).bit_length())]
