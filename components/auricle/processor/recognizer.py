"""One decode of one segment: encode what is new, decode, and retry what was lost."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from auricle.errors import AuricleError, Overloaded, WindowsMissing
from auricle.messages import (
    DecodeReply,
    DecodeRequest,
    DecodeWindow,
    EncodeRequest,
    WindowRef,
)
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.processor.sent_blocks import SentBlocks
from auricle.processor.usage import UsageMeter
from auricle.processor.windows import SegmentAudio, Window
from auricle.tasks import in_thread
from auricle.tracing import OFF, Tracer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DecodeTask:
    """What to decode: the prompt around the audio, and whether the text becomes final.

    `draft` is the part of the last hypothesis that is decoded again.
    """

    head: tuple[int, ...]
    tail: tuple[int, ...]
    max_tokens: int
    final: bool
    draft: tuple[int, ...] = ()
    trace: str = ""


class Recognizer:
    """Decodes for one session. Sticky to an encode worker and a PD worker per segment."""

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
        # Finished windows that the segment's PD worker has read.
        self._on_pd_worker: set[str] = set()
        self._last_tail_key: str | None = None
        self._sent = SentBlocks()

    @property
    def failures(self) -> int:
        """How many workers died or were silent under this session's requests."""
        return self._encoder.failures + self._decoder.failures

    def start_segment(self) -> None:
        """Placed anew by load, so scale-up and draining take effect here.

        Nothing of the last segment is of use to the next, on whichever worker it is.
        """
        self._encoder.leave()
        self._decoder.leave()
        self._on_pd_worker.clear()
        self._last_tail_key = None
        self._sent = SentBlocks()

    def close(self) -> None:
        """Give up both placements."""
        self._encoder.leave()
        self._decoder.leave()

    async def decode(
        self, audio: SegmentAudio, samples: int, task: DecodeTask, usage: UsageMeter
    ) -> DecodeReply:
        """Greedy answer tokens for the segment's first `samples` samples."""
        with self._tracer.span("mel", task.trace):
            windows = await in_thread(audio.windows, samples)

        async def once() -> DecodeReply:
            refs = await self._encode_missing(windows, usage, task)
            try:
                return await self._pd_pool.decode(self._decoder, self._request(windows, refs, task))
            except WindowsMissing as error:
                self._on_pd_worker.difference_update(error.keys)
                # The refs may be of a worker that died: have them encoded elsewhere.
                if any(key in refs for key in error.keys):
                    self._encoder.move()
                raise
            except AuricleError as error:
                stays = isinstance(error, Overloaded) and not task.final
                if error.retryable and not stays:  # the next try goes to another PD worker
                    self._on_pd_worker.clear()
                raise

        reply = await self._pd_pool.attempt(once, wait_for_room=task.final)
        self._on_pd_worker.update(w.key for w in windows if not w.partial)
        usage.decoded(reply)
        return reply

    async def encode_ahead(self, audio: SegmentAudio, usage: UsageMeter) -> None:
        """Have finished seconds convolved before the next decode asks for them.

        Where this fails the decode does it.
        """
        windows = await in_thread(audio.windows, audio.samples)
        instance = await self._encoder.instance()
        ahead = [new for w in windows if (new := self._sent.news(instance, w)).blocks]
        if not ahead:
            return
        request = EncodeRequest(
            session=self._session,
            tenant=self._tenant,
            windows=tuple(self._sent.features(instance, w, supersedes=None) for w in ahead),
            ahead=True,
        )
        try:
            reply = await self._encode_pool.encode_ahead(instance, request)
        except AuricleError as error:
            log.debug("encoding ahead failed: %s", error)
            return
        self._sent.arrived(instance, ahead)
        usage.encoded(reply)

    async def _encode_missing(
        self, windows: tuple[Window, ...], usage: UsageMeter, task: DecodeTask
    ) -> dict[str, WindowRef]:
        wanted = [w for w in windows if w.key not in self._on_pd_worker]
        if not wanted:
            return {}
        tail = windows[-1].key

        def request_for(instance: int) -> EncodeRequest:
            return EncodeRequest(
                session=self._session,
                tenant=self._tenant,
                windows=tuple(
                    self._sent.features(
                        instance, w, supersedes=self._last_tail_key if w.key == tail else None
                    )
                    for w in wanted
                ),
                background=self._background,
                trace=task.trace,
            )

        reply = await self._encode_pool.encode(
            self._encoder, request_for, self._sent.forget, wait_for_room=task.final
        )
        self._sent.arrived(await self._encoder.instance(), wanted)
        usage.encoded(reply)
        self._last_tail_key = tail if windows[-1].partial else None
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
            background=self._background,
            trace=task.trace,
        )
