"""Has the windows of a session's segments encoded, each segment's by one encode worker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from auricle.core.errors import FeaturesMissing, WindowsMissing, WindowsSpoiled
from auricle.processor.pools import EncodePool, Placement
from auricle.processor.session.windows import Block, Window
from auricle.protocol.recognition import (
    BlockFeatures,
    EncodeReply,
    EncodeRequest,
    SpoiledSlot,
    WindowFeatures,
    WindowRef,
)

# Records the blocks of features sent to encode workers, so that each is sent once. No I/O.

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

        `supersedes` maps a window's key to the key of the partial window that it replaces. Of a
        window's context only the last block is named if the worker has it, or gets it with an
        earlier window of the request.
        """
        known = self._on[instance]
        sending: set[str] = set()
        found = []
        for window in windows:
            found.append(self._features(window, known, sending, supersedes.get(window.key)))
            if known:  # otherwise the worker may have lost earlier blocks, too
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


class SegmentEncoder:
    """Encodes windows of one session, and sends each encode worker only the features it lacks.

    The worker is replaced within a segment if it fails, or if its embeddings cannot be read.
    """

    def __init__(
        self, pool: EncodePool, session: str, tenant: str, *, has_all: int | None = None
    ) -> None:
        """`has_all` is the encode worker that has the first segment's windows, if there is one."""
        self._pool = pool
        self._session = session
        self._tenant = tenant
        self._has_all = has_all
        self.placement = Placement(pool, has_all)
        self._sent = SentBlocks()
        # Slots that the next request reports.
        self._spoiled: tuple[SpoiledSlot, ...] = ()

    def start_segment(self) -> None:
        """Release the worker, whose cache of the last segment is of no use to the next one."""
        self.placement.leave()
        self._sent = SentBlocks()

    async def encode(
        self,
        windows: Sequence[Window],
        *,
        supersedes: Mapping[str, str] = NOTHING,
        background: bool,
        trace: str,
        wait_for_room: bool,
    ) -> EncodeReply:
        """Have one worker encode all windows; `wait_for_room`: see `Pool.attempt`.

        `supersedes` is as in `SentBlocks.features`. Raises AuricleError if all attempts fail.
        """
        # Once each: keys carry no position, so two windows of digital silence have one key.
        wanted = list({window.key: window for window in windows}.values())

        async def once() -> EncodeReply:
            instance = await self.placement.instance()
            if instance == self._has_all:  # until it raises FeaturesMissing
                self._sent.arrived(instance, wanted)
                self._has_all = None
            request = EncodeRequest(
                session=self._session,
                tenant=self._tenant,
                windows=self._sent.features(instance, wanted, supersedes),
                background=background,
                trace=trace,
                spoiled=self._spoiled,
            )
            try:
                reply = await self.placement.call(request, EncodeReply)
            except FeaturesMissing:  # it has evicted some of them
                self._sent.forget(instance)
                raise
            self._sent.arrived(instance, wanted)
            return reply

        return await self._pool.attempt(once, wait_for_room=wait_for_room)

    async def encode_ahead(self, windows: Sequence[Window]) -> EncodeReply | None:
        """Have finished blocks convolved that the worker lacks, in one attempt; None without any.

        Raises AuricleError.
        """
        instance = await self.placement.instance()
        ahead = [new for w in windows if (new := self._sent.news(instance, w)).blocks]
        if not ahead:
            return None
        request = EncodeRequest(
            session=self._session,
            tenant=self._tenant,
            windows=self._sent.features(instance, ahead),
            ahead=True,
        )
        reply = await self._pool.encode_ahead(instance, request)
        self._sent.arrived(instance, ahead)
        return reply

    def unreadable(self, refs: Mapping[str, WindowRef], error: WindowsMissing) -> None:
        """Decide where windows of `refs`, which another worker could not read, are encoded next.

        If the encode worker may have died, it is another one. A spoiled slot is reported to the
        same worker, which would otherwise use it again; if that does not help, it is another one.
        """
        lost = [refs[key] for key in error.keys if key in refs]
        reported, self._spoiled = bool(self._spoiled), ()
        if isinstance(error, WindowsSpoiled):
            self._spoiled = tuple(SpoiledSlot(r.agent, r.slot, r.generation) for r in lost)
        if lost and (reported or not self._spoiled):
            self.placement.move()

    def all_read(self) -> None:
        """All windows could be read: no slot is to be reported any more."""
        self._spoiled = ()
