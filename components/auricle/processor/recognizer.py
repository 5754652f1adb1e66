"""Decodes a segment: encodes its new windows, requests the decode, and retries failures."""

from __future__ import annotations

import logging
import uuid

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import AuricleError, Overloaded, WindowsMissing, WindowsSpoiled
from auricle.messages import (
    DecodeReply,
    DecodeRequest,
    DecodeWindow,
    EncodeRequest,
    SpoiledSlot,
    WindowRef,
)
from auricle.process.tracing import OFF, Tracer
from auricle.processor.actions import DecodeTask
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.processor.sent_blocks import SentBlocks
from auricle.processor.usage import UsageMeter
from auricle.processor.windows import SegmentAudio, Window
from auricle.tasks import in_thread

log = logging.getLogger(__name__)
# Samples whose features are computed on the event loop, in a millisecond: a thread would take
# longer to wake. Whatever is said at once, and long segments, whose keys take longer, go there.
_AT_ONCE = SAMPLE_RATE
_SHORT_SEGMENT = 30 * SAMPLE_RATE


class Recognizer:
    """Decodes one session's segments, each on one encode worker and one PD worker.

    Either worker is replaced within a segment if it fails. Runs on the event loop, one call of
    `decode` or `encode_ahead` at a time; log-mel of more than a second is computed in a thread.
    """

    def __init__(
        self,
        session: str,
        tenant: str,
        encode_pool: EncodePool,
        pd_pool: PdPool,
        *,
        background: bool = False,
        tracer: Tracer = OFF,
    ) -> None:
        self._session = session
        self._tenant = tenant
        self._background = background
        self._tracer = tracer
        self._encode_pool = encode_pool
        self._pd_pool = pd_pool
        self._encoder = Placement(encode_pool)
        self._decoder = Placement(pd_pool)
        # Keys of the finished windows that the segment's PD worker has read.
        self._on_pd_worker: set[str] = set()
        self._last_tail_key: str | None = None
        self._sent = SentBlocks()
        # Slots that the next encode request reports.
        self._spoiled: tuple[SpoiledSlot, ...] = ()

    @property
    def failures(self) -> int:
        """The number of this session's requests that failed because a worker failed."""
        return self._encoder.failures + self._decoder.failures

    @property
    def workers(self) -> tuple[str, str]:
        """The encode worker and the PD worker in use, ids in hex; empty if there is none."""
        return self._encoder.name, self._decoder.name

    @property
    def encoder(self) -> int | None:
        """The encode worker that has the segment's windows."""
        return self._encoder.current

    def start_segment(self) -> None:
        """Release both workers, so that the next segment is placed by current load.

        The workers' caches of the last segment are of no use to the next one.
        """
        self._encoder.leave()
        self._decoder.leave()
        self._on_pd_worker.clear()
        self._last_tail_key = None
        self._sent = SentBlocks()

    def close(self) -> None:
        """Release both workers."""
        self._encoder.leave()
        self._decoder.leave()

    async def decode(
        self, audio: SegmentAudio, samples: int, task: DecodeTask, usage: UsageMeter
    ) -> DecodeReply:
        """Decode the segment's first `samples` samples greedily; add the cost to `usage`.

        A partial decode raises Overloaded as soon as a worker is full; a final one waits for a
        slot up to the pool's deadline. Raises another AuricleError if all attempts fail.
        """
        with self._tracer.span("mel", task.trace), usage.timed("mel"):
            windows = await _windows(audio, samples)

        async def once() -> DecodeReply:
            if self._decoder.leave_if_left():
                self._on_pd_worker.clear()
            refs = await self._encode_missing(windows, usage, task)
            request = self._request(windows, refs, task)
            try:
                with usage.timed("decode"):
                    return await self._pd_pool.decode(self._decoder, request)
            except WindowsMissing as error:
                self._on_pd_worker.difference_update(error.keys)
                self._unreadable([refs[key] for key in error.keys if key in refs], error)
                raise
            except AuricleError as error:
                stays = isinstance(error, Overloaded) and not task.final
                if error.retryable and not stays:  # the next attempt is on another PD worker
                    self._on_pd_worker.clear()
                raise

        reply = await self._pd_pool.attempt(once, wait_for_room=task.final)
        self._spoiled = ()
        self._on_pd_worker.update(w.key for w in windows if not w.partial)
        usage.decoded(reply)
        usage.placed(*self.workers)
        return reply

    def _unreadable(self, refs: list[WindowRef], error: WindowsMissing) -> None:
        """Decide where the windows of `refs`, which a PD worker could not read, are encoded next.

        The encode worker may have died: on another one. A spoiled slot is reported to its owner,
        which would go on to call it cached: on the same one, unless that did not help.
        """
        reported, self._spoiled = bool(self._spoiled), ()
        if isinstance(error, WindowsSpoiled):
            self._spoiled = tuple(SpoiledSlot(r.agent, r.slot, r.generation) for r in refs)
        if refs and (reported or not self._spoiled):
            self._encoder.move()

    async def encode_ahead(self, audio: SegmentAudio, usage: UsageMeter) -> None:
        """Have finished blocks convolved before the next decode needs them.

        Errors are logged and not raised: the decode then has the blocks convolved.
        """
        try:
            await self._encode_ahead(audio, usage)
        except AuricleError as error:
            log.debug("encoding ahead failed: %s", error)

    async def _encode_ahead(self, audio: SegmentAudio, usage: UsageMeter) -> None:
        if not audio.encodes_ahead:
            return
        windows = await _windows(audio, audio.samples)
        instance = await self._encoder.instance()
        ahead = [new for w in windows if (new := self._sent.news(instance, w)).blocks]
        if not ahead:
            return
        request = EncodeRequest(
            session=self._session,
            tenant=self._tenant,
            windows=self._sent.features(instance, ahead),
            ahead=True,
        )
        reply = await self._encode_pool.encode_ahead(instance, request)
        self._sent.arrived(instance, ahead)
        usage.encoded(reply)

    async def _encode_missing(
        self, windows: tuple[Window, ...], usage: UsageMeter, task: DecodeTask
    ) -> dict[str, WindowRef]:
        # Once each: keys carry no position, so two windows of digital silence have one key.
        wanted = list({w.key: w for w in windows if w.key not in self._on_pd_worker}.values())
        if not wanted:
            return {}
        tail = next((w for w in reversed(windows) if w.partial), windows[-1])
        replaced = {} if self._last_tail_key is None else {tail.key: self._last_tail_key}

        def request_for(instance: int) -> EncodeRequest:
            return EncodeRequest(
                session=self._session,
                tenant=self._tenant,
                windows=self._sent.features(instance, wanted, replaced),
                background=self._background or task.background,
                trace=task.trace,
                spoiled=self._spoiled,
            )

        with usage.timed("encode"):
            reply = await self._encode_pool.encode(
                self._encoder, request_for, self._sent.forget, wait_for_room=task.final
            )
        self._sent.arrived(await self._encoder.instance(), wanted)
        usage.encoded(reply)
        self._last_tail_key = tail.key if tail.partial else None
        return {ref.key: ref for ref in reply.windows}

    def _request(
        self, windows: tuple[Window, ...], refs: dict[str, WindowRef], task: DecodeTask
    ) -> DecodeRequest:
        return DecodeRequest(
            session=self._session,
            tenant=self._tenant,
            request=f"{self._session}-{uuid.uuid4().hex[:12]}",
            head=task.head,
            windows=tuple(
                DecodeWindow(w.key, w.embeddings, w.partial, refs.get(w.key)) for w in windows
            ),
            tail=task.tail,
            max_tokens=task.max_tokens,
            final=task.final,
            draft=task.draft,
            background=self._background or task.background,
            logprobs=task.logprobs,
            allowed=task.allowed,
            trace=task.trace,
        )


async def _windows(audio: SegmentAudio, samples: int) -> tuple[Window, ...]:
    """Return the segment's windows as if it ended after `samples`."""
    if samples <= _SHORT_SEGMENT and 0 <= samples - audio.computed <= _AT_ONCE:
        return audio.windows(samples)
    return await in_thread(audio.windows, samples)
