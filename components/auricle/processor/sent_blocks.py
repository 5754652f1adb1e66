"""Records the blocks of features sent to encode workers, so that each is sent once. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from auricle.messages import BlockFeatures, WindowFeatures
from auricle.processor.windows import Block, Window


class SentBlocks:
    """The blocks of one segment that each encode worker has received.

    A worker that has evicted a block raises FeaturesMissing; then all blocks are sent again.
    """

    def __init__(self) -> None:
        self._on: defaultdict[int, set[str]] = defaultdict(set)

    def features(self, instance: int, window: Window, supersedes: str | None) -> WindowFeatures:
        """Return the window for `instance`, without the features that it has.

        `supersedes` is the key of a partial window that this one replaces, or None.
        """
        known = self._on[instance]
        return WindowFeatures(
            key=window.key,
            floor=window.floor,
            blocks=tuple(_features(block, known) for block in window.blocks),
            partial=window.partial,
            supersedes=supersedes,
        )

    def news(self, instance: int, window: Window) -> Window:
        """Return the window with only the final blocks that `instance` has not received."""
        known = self._on[instance]
        blocks = tuple(b for b in window.blocks if b.final and b.key not in known)
        return replace(window, blocks=blocks)

    def arrived(self, instance: int, windows: Sequence[Window]) -> None:
        """Record that `instance` has received the final blocks of these windows."""
        self._on[instance].update(b.key for w in windows for b in w.blocks if b.final)

    def forget(self, instance: int) -> None:
        """Record that `instance` has evicted blocks; all are sent to it again."""
        self._on.pop(instance, None)


def _features(block: Block, known: set[str]) -> BlockFeatures:
    log_mel = None if block.key in known else block.frames.tobytes()
    return BlockFeatures(block.key, len(block.frames), block.final, log_mel)
