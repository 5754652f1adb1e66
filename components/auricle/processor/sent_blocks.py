"""Which blocks of features an encode worker has been sent, so that they travel once. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from auricle.messages import BlockFeatures, WindowFeatures
from auricle.processor.windows import Block, Window


class SentBlocks:
    """Of one segment. An encode worker may forget; then it says so, and all is sent again."""

    def __init__(self) -> None:
        self._on: defaultdict[int, set[str]] = defaultdict(set)

    def features(self, instance: int, window: Window, supersedes: str | None) -> WindowFeatures:
        """The window as `instance` needs it."""
        known = self._on[instance]
        return WindowFeatures(
            key=window.key,
            floor=window.floor,
            blocks=tuple(_features(block, known) for block in window.blocks),
            partial=window.partial,
            supersedes=supersedes,
        )

    def news(self, instance: int, window: Window) -> Window:
        """Of the window, the finished blocks that `instance` has not been sent."""
        known = self._on[instance]
        blocks = tuple(b for b in window.blocks if b.final and b.key not in known)
        return replace(window, blocks=blocks)

    def arrived(self, instance: int, windows: Sequence[Window]) -> None:
        """`instance` has these windows, or the blocks of them that are final."""
        self._on[instance].update(b.key for w in windows for b in w.blocks if b.final)

    def forget(self, instance: int) -> None:
        """`instance` no longer has what it was sent."""
        self._on.pop(instance, None)


def _features(block: Block, known: set[str]) -> BlockFeatures:
    log_mel = None if block.key in known else block.frames.tobytes()
    return BlockFeatures(block.key, len(block.frames), block.final, log_mel)
