"""Aligns a final segment: has its audio encoded for the aligner, and asks an align worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.alignment.words import aligned_languages
from auricle.checkpoint.files import Checkpoint
from auricle.errors import AuricleError, WindowsMissing
from auricle.messages.aligning import AlignReply, AlignRequest
from auricle.messages.decoding import DecodeWindow
from auricle.messages.encoding import WindowRef
from auricle.processor.pools import EncodePool, Placement, Pool
from auricle.processor.segment_encoder import SegmentEncoder
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
        pool: Pool,
        *,
        encoded: bool = False,
    ) -> None:
        """`checkpoint` is the aligner's, which both pools serve. `encoded`: it is the model's, so
        that `encode_pool` has encoded a final's windows for text.

        `encode_pool` makes one attempt at a time: those of `pool` are around it, so that the last
        error is known when time is up.
        """
        self._geometry = checkpoint.geometry
        self._fingerprint = checkpoint.fingerprint
        self._dtype = dtype
        self._encode_pool = encode_pool
        self._pool = pool
        self._encoded = encoded
        self._languages = _languages(checkpoint)

    def aligns(self, language: str) -> bool:
        """Whether words of a language have times; it is empty if that is not known."""
        return language in self._languages

    async def starting(self) -> bool:
        """Whether a pool was empty and has no worker yet, so that there is nobody to wait for.

        Raises AuricleError if discovery cannot be followed.
        """
        return await self._encode_pool.starting() or await self._pool.starting()

    async def times(self, spoken: Spoken, seconds: float) -> tuple[int, ...]:
        """Return begin and end of each word, in milliseconds from the segment's start.

        Retries on other workers. Raises AuricleError: after `seconds` the last one that there
        was, or DeadlineExceeded.
        """
        alignment = await self._alignment(spoken)
        try:
            return await alignment.run(seconds)
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
        pool: Pool,
        *,
        encoded: bool,
    ) -> None:
        self._spoken = spoken
        self._windows = windows
        self._pool = pool
        has_all = spoken.encoder if encoded else None
        self._encoder = SegmentEncoder(encode_pool, spoken.session, spoken.tenant, has_all=has_all)
        self._aligner = Placement(pool)

    def close(self) -> None:
        """Release both workers."""
        self._encoder.placement.leave()
        self._aligner.leave()

    async def run(self, seconds: float) -> tuple[int, ...]:
        reply = await self._pool.attempt_within(seconds, "aligning", self._attempt)
        words = len(self._spoken.words)
        if len(reply.times_ms) != 2 * words:  # it would shift every word after the first fault
            raise AuricleError(f"the aligner gave {len(reply.times_ms)} times for {words} words")
        return reply.times_ms

    async def _attempt(self) -> AlignReply:
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
            return await self._aligner.call(request, AlignReply)
        except WindowsMissing as error:
            self._encoder.unreadable(refs, error)
            raise

    async def encoded(self) -> dict[str, WindowRef]:
        """Return where each window's embeddings are, by its key."""
        spoken = self._spoken
        reply = await self._encoder.encode(
            self._windows,
            background=spoken.background,
            trace=spoken.trace,
            wait_for_room=False,
        )
        return {ref.key: ref for ref in reply.windows}
