"""Has the windows of a session's segments encoded, each segment's by one encode worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auricle.errors import FeaturesMissing, WindowsMissing, WindowsSpoiled
from auricle.messages.encoding import EncodeReply, EncodeRequest, SpoiledSlot, WindowRef
from auricle.processor.pools import EncodePool, Placement
from auricle.processor.sent_blocks import NOTHING, SentBlocks
from auricle.processor.windows import Window


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
            if instance == self._has_all:  # until it says that it has not
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

        The encode worker may have died: on another one. A spoiled slot is reported to its owner,
        which would go on to call it cached: on the same one, unless that did not help.
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
