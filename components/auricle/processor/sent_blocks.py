"""Records the blocks of features sent to encode workers, so that each is sent once. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from auricle.messages.encoding import BlockFeatures, WindowFeatures
from auricle.processor.windows import Block, Window

NOTHING: Mapping[str, str] = MappingProxyType({})


class SentBlocks:
    """The blocks of one segment that each encode worker has received.

    A worker that has evicted a block raises FeaturesMissing; then all blocks are sent again.
    """

    def __init__(self) -> None:
        self._on: defaultdict[int, set[str]] = defaultdict(set)

    def features(
        self, instance: int, windows: Sequence[Window], supersedes: Mapping[str, str] = NOTHING
    ) -> tuple[WindowFeatures, ...]:
        """Return the windows of a request to `instance`, without the features that it has.

        `supersedes` has, by a window's key, that of the partial window which it replaces. Of a
        window's context only the last block is named if the worker has it, or gets it with an
        earlier window of the request.
        """
        known = self._on[instance]
        sending: set[str] = set()
        found = []
        for window in windows:
            found.append(self._features(window, known, sending, supersedes.get(window.key)))
            if known:  # else the worker may have lost what comes before these, too
                sending.update(block.key for block in window.blocks[window.context :])
        return tuple(found)

    def _features(
        self,
        window: Window,
        known: Collection[str],
        sending: Collection[str],
        supersedes: str | None,
    ) -> WindowFeatures:
        context = window.context
        own = _all_features(window.blocks[context:], known)
        before = window.blocks[:context]
        if before and (before[-1].key in known or before[-1].key in sending):
            context, before = 1, before[-1:]
            known = {before[0].key}
        sent = _all_features(before, known)
        return WindowFeatures(
            key=window.key,
            floor=window.floor,
            blocks=(*sent, *own),
            partial=window.partial,
            supersedes=supersedes,
            context=context,
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


def _all_features(blocks: Sequence[Block], known: Collection[str]) -> tuple[BlockFeatures, ...]:
    """Return blocks. Those that are equal, as seconds of digital silence, have features once."""
    sent = set(known)
    features = []
    for block in blocks:
        log_mel = None if block.key in sent else block.frames.tobytes()
        features.append(BlockFeatures(block.key, len(block.frames), block.final, log_mel))
        sent.add(block.key)
    return tuple(features)
