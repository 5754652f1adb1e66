"""Aligns a final segment: has its audio encoded for the aligner, and asks an align worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from auricle.alignment.words import aligned_languages
from auricle.checkpoint.files import Checkpoint
from auricle.errors import AuricleError, DeadlineExceeded, WindowsMissing, WindowsSpoiled
from auricle.load.starting import Starting
from auricle.messages import (
    AlignReply,
    AlignRequest,
    DecodeWindow,
    EncodeRequest,
    SpoiledSlot,
    WindowRef,
)
from auricle.processor.pools import AlignPool, EncodePool, Placement
from auricle.processor.sent_blocks import SentBlocks
from auricle.processor.windows import KeyScheme, SegmentAudio, Window
from auricle.tasks import in_thread


@dataclass(frozen=True)
class Spoken:
    """A final segment of a session: its first `samples` samples, `audio_ms` long, and its words.

    `texts`, joined, are its text, by word; `language` is empty if it is not known. `encoder` is the
    encode worker that has its windows for text.
    """

    session: str
    tenant: str
    audio: SegmentAudio
    samples: int
    audio_ms: int
    words: tuple[str, ...]
    background: bool
    trace: str
    texts: tuple[str, ...] = ()
    language: str = ""
    encoder: int | None = None


class WordAligner:
    """Aligns the segments of all sessions of a processor."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: str,
        encode_pool: EncodePool,
        pool: AlignPool,
        starting: Starting | None = None,
        *,
        encoded: bool = False,
    ) -> None:
        """`checkpoint` is the aligner's, which both pools serve; `starting` what planners say.
        `encoded`: it is the model's, so that `encode_pool` has encoded a final's windows for text.

        `encode_pool` makes one attempt at a time: those of `pool` are around it, so that the last
        error is known when time is up.
        """
        self._geometry = checkpoint.geometry
        self._fingerprint = checkpoint.fingerprint
        self._dtype = dtype
        self._encode_pool = encode_pool
        self._pool = pool
        self._encoded = encoded
        self._starting = Starting() if starting is None else starting
        self._languages = _languages(checkpoint)

    def aligns(self, language: str) -> bool:
        """Whether words of a language have times; it is empty if that is not known."""
        return language in self._languages

    async def starting(self) -> bool:
        """Whether a pool was empty and has no worker yet, so that there is nobody to wait for.

        Raises AuricleError if discovery cannot be followed.
        """
        if "align_encode_worker" in self._starting and not await self._encode_pool.there():
            return True
        return "align_worker" in self._starting and not await self._pool.there()

    async def times(self, spoken: Spoken, seconds: float) -> tuple[int, ...]:
        """Return begin and end of each word, in milliseconds from the segment's start.

        Retries on other workers. Raises AuricleError: after `seconds` the last one that there
        was, or DeadlineExceeded.
        """
        alignment = await self._alignment(spoken)
        try:
            async with asyncio.timeout(seconds):
                return await alignment.run()
        except TimeoutError:
            late = DeadlineExceeded(f"aligning took longer than {seconds:g} s")
            raise alignment.last or late from None
        finally:
            alignment.close()

    async def encoded(self, spoken: Spoken) -> None:
        """Only have a segment's audio encoded, in one attempt. Raises AuricleError."""
        alignment = await self._alignment(spoken)
        try:
            await alignment.encoded()
        finally:
            alignment.close()

    async def _alignment(self, spoken: Spoken) -> _Alignment:
        keys = KeyScheme(self._fingerprint, self._dtype, spoken.tenant)
        audio = spoken.audio.encoded_by(self._geometry, keys)
        windows = await in_thread(audio.windows, spoken.samples)
        return _Alignment(spoken, windows, self._encode_pool, self._pool, encoded=self._encoded)


def _languages(checkpoint: Checkpoint) -> frozenset[str]:
    """Return the languages of an aligner; the empty one if it does not need to know."""
    if checkpoint.architecture.audio != "cross_attention":
        return frozenset({"", *aligned_languages(checkpoint.languages)})
    prompt = checkpoint.architecture.prompt
    return frozenset([*checkpoint.architecture.languages, *([] if prompt.detects else [""])])


class _Alignment:
    """One segment's attempts."""

    def __init__(
        self,
        spoken: Spoken,
        windows: Sequence[Window],
        encode_pool: EncodePool,
        pool: AlignPool,
        *,
        encoded: bool,
    ) -> None:
        self._spoken = spoken
        self._windows = windows
        self._encode_pool, self._pool = encode_pool, pool
        self._has_all = spoken.encoder if encoded else None
        self._encoder = Placement(encode_pool, self._has_all)
        self._aligner = Placement(pool)
        self._sent = SentBlocks()
        self._spoiled: tuple[SpoiledSlot, ...] = ()
        self.last: AuricleError | None = None  # of the attempts so far

    def close(self) -> None:
        """Release both workers."""
        self._encoder.leave()
        self._aligner.leave()

    async def run(self) -> tuple[int, ...]:
        reply: AlignReply = await self._pool.attempt(self._attempt, wait_for_room=True)
        words = len(self._spoken.words)
        if len(reply.times_ms) != 2 * words:  # it would shift every word after the first fault
            raise AuricleError(f"the aligner gave {len(reply.times_ms)} times for {words} words")
        return reply.times_ms

    async def _attempt(self) -> AlignReply:
        try:
            return await self._once()
        except AuricleError as error:
            self.last = error
            raise

    async def _once(self) -> AlignReply:
        refs = await self.encoded()
        spoken = self._spoken
        request = AlignRequest(
            session=spoken.session,
            tenant=spoken.tenant,
            windows=tuple(
                DecodeWindow(w.key, w.embeddings, w.partial, refs[w.key]) for w in self._windows
            ),
            words=spoken.words,
            audio_ms=spoken.audio_ms,
            background=spoken.background,
            trace=spoken.trace,
            texts=spoken.texts,
            language=spoken.language,
        )
        try:
            return await self._pool.align(self._aligner, request)
        except WindowsMissing as error:
            self._unreadable([refs[key] for key in error.keys if key in refs], error)
            raise

    def _unreadable(self, refs: Sequence[WindowRef], error: WindowsMissing) -> None:
        """Have spoiled slots evicted by their owner, others encoded by another worker."""
        reported, self._spoiled = bool(self._spoiled), ()
        if isinstance(error, WindowsSpoiled):
            self._spoiled = tuple(SpoiledSlot(r.agent, r.slot, r.generation) for r in refs)
        if reported or not self._spoiled:
            self._encoder.move()

    async def encoded(self) -> dict[str, WindowRef]:
        """Return where each window's embeddings are, by its key."""
        # Once each: keys carry no position, so two windows of digital silence have one key.
        wanted = list({window.key: window for window in self._windows}.values())

        def request_for(instance: int) -> EncodeRequest:
            if instance == self._has_all:  # until it says that it has not
                self._sent.arrived(instance, wanted)
                self._has_all = None
            return EncodeRequest(
                session=self._spoken.session,
                tenant=self._spoken.tenant,
                windows=self._sent.features(instance, wanted),
                background=self._spoken.background,
                trace=self._spoken.trace,
                spoiled=self._spoiled,
            )

        reply = await self._encode_pool.encode(
            self._encoder, request_for, self._sent.forget, wait_for_room=False
        )
        self._sent.arrived(await self._encoder.instance(), wanted)
        return {ref.key: ref for ref in reply.windows}
