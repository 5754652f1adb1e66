"""Decodes a segment: encodes its new windows, requests the decode, and retries failures."""

from __future__ import annotations

import logging
import uuid

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import in_thread
from auricle.core.errors import AuricleError, Overloaded, WindowsMissing
from auricle.process.tracing import OFF, Tracer
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.processor.segment_encoder import SegmentEncoder
from auricle.processor.session.actions import DecodeTask
from auricle.processor.session.windows import SegmentAudio, Window
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import DecodeReply, DecodeRequest, DecodeWindow, WindowRef

log = logging.getLogger(__name__)
# Features of fewer samples are computed on the event loop, in a millisecond: waking a thread takes
# longer. Features of more samples, and of long segments, whose keys take longer, go to a thread.
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
        self._pd_pool = pd_pool
        self._encoder = SegmentEncoder(encode_pool, session, tenant)
        self._decoder = Placement(pd_pool)
        # Keys of the finished windows that the segment's PD worker has read.
        self._on_pd_worker: set[str] = set()
        self._last_tail_key: str | None = None

    @property
    def failures(self) -> int:
        """The number of this session's requests that failed because a worker failed."""
        return self._encoder.placement.failures + self._decoder.failures

    @property
    def workers(self) -> tuple[str, str]:
        """The encode worker and the PD worker in use, ids in hex; empty if there is none."""
        return self._encoder.placement.name, self._decoder.name

    @property
    def encoder(self) -> int | None:
        """The encode worker that has the segment's windows."""
        return self._encoder.placement.current

    def start_segment(self) -> None:
        """Release both workers, so that the next segment is placed by current load.

        The workers' caches of the last segment are of no use to the next one.
        """
        self._encoder.start_segment()
        self._decoder.leave()
        self._on_pd_worker.clear()
        self._last_tail_key = None

    def close(self) -> None:
        """Release both workers."""
        self._encoder.placement.leave()
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
                self._encoder.unreadable(refs, error)
                raise
            except AuricleError as error:
                stays = isinstance(error, Overloaded) and not task.final
                if error.retryable and not stays:  # the next attempt is on another PD worker
                    self._on_pd_worker.clear()
                raise

        reply = await self._pd_pool.attempt(once, wait_for_room=task.final)
        self._encoder.all_read()
        self._on_pd_worker.update(w.key for w in windows if not w.partial)
        usage.decoded(reply)
        usage.placed(*self.workers)
        return reply

    async def encode_ahead(self, audio: SegmentAudio, usage: UsageMeter) -> None:
        """Have finished blocks convolved before the next decode needs them.

        Errors are logged and not raised: the decode then has the blocks convolved.
        """
        if not audio.encodes_ahead:
            return
        try:
            windows = await _windows(audio, audio.samples)
            reply = await self._encoder.encode_ahead(windows)
        except AuricleError as error:
            log.debug("encoding ahead failed: %s", error)
            return
        if reply is not None:
            usage.encoded(reply)

    async def _encode_missing(
        self, windows: tuple[Window, ...], usage: UsageMeter, task: DecodeTask
    ) -> dict[str, WindowRef]:
        wanted = [window for window in windows if window.key not in self._on_pd_worker]
        if not wanted:
            return {}
        tail = next((w for w in reversed(windows) if w.partial), windows[-1])
        replaced = {} if self._last_tail_key is None else {tail.key: self._last_tail_key}
        with usage.timed("encode"):
            reply = await self._encoder.encode(
                wanted,
                supersedes=replaced,
                background=self._background or task.background,
                trace=task.trace,
                wait_for_room=task.final,
            )
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
    short = samples <= _SHORT_SEGMENT and 0 <= samples - audio.computed <= _AT_ONCE
    if short and (windows := audio.windows_at_once(samples)) is not None:
        return windows
    return await in_thread(audio.windows, samples)
