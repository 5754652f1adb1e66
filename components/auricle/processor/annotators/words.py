"""A session's words: an event after each final with text; no text waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.checkpoints.files import ModelCheckpoint
from auricle.core.aio import in_thread
from auricle.core.errors import AuricleError, WindowsMissing
from auricle.load.meters import DemandMeter
from auricle.load.pools import WORDS
from auricle.processor.annotators.annotator import STARTING, AnnotationRules, Annotator
from auricle.processor.pools import EncodePool, Placement, Pool
from auricle.processor.segment_encoder import SegmentEncoder
from auricle.processor.session.open_segment import EndedSegment
from auricle.processor.session.windows import KeyScheme, SegmentAudio, Window
from auricle.protocol.annotation import AlignReply, AlignRequest
from auricle.protocol.recognition import DecodeWindow, WindowRef
from auricle.protocol.sessions import (
    OpenSession,
    ScoredToken,
    SegmentFinal,
    SegmentWords,
    SessionEvent,
)
from auricle.protocol.stream import Word
from auricle.transcript.words import AlignedPiece, aligned_languages, pieces

# Times of a segment's words: from the aligner, or from the commit grid. No I/O.
#
# The commit grid follows from the decodes: a token that has not changed since the decode of the
# first two seconds was spoken within them. Between two decodes, times are interpolated by the
# length of the text. Its resolution is the interval between decodes, and events name their source.

_LONGEST_CHARACTER = 4  # bytes

Confidences = Sequence[float | None]


def aligned(
    segment: int,
    start: int,
    split: Sequence[AlignedPiece],
    times_ms: Sequence[int],
    confidences: Confidences,
) -> SegmentWords:
    """Return words with the aligner's times, in milliseconds from the segment's start.

    `start` is the session sample at which the segment begins.
    """
    begin = milliseconds(start)
    words = tuple(
        Word(
            word=piece.word,
            text=piece.text,
            start_ms=begin + times_ms[2 * at],
            end_ms=begin + times_ms[2 * at + 1],
            confidence=confidence,
        )
        for at, (piece, confidence) in enumerate(zip(split, confidences, strict=True))
    )
    return SegmentWords(segment, words, "aligned")


def commit_grid(
    start: int,
    samples: int,
    split: Sequence[AlignedPiece],
    heard: Sequence[tuple[int, int]],
    confidences: Confidences,
) -> tuple[Word, ...]:
    """Return words with the times of the decodes in which they first appeared.

    `heard` and `samples` are as in `grid`.
    """
    total = sum(len(piece.text.encode()) for piece in split)
    sample_of = grid(heard, total, samples)

    def at_byte(position: int) -> int:
        return milliseconds(start + int(sample_of(position)))

    words: list[Word] = []
    position = 0
    for piece, confidence in zip(split, confidences, strict=True):
        spoken = len(piece.text.rstrip().encode())
        begin, end = at_byte(position), at_byte(position + spoken)
        words.append(Word(piece.word, piece.text, begin, end, confidence))
        position += len(piece.text.encode())
    return tuple(words)


def grid(heard: Sequence[tuple[int, int]], total: int, samples: int) -> Callable[[Any], Any]:
    """Return the function from a byte of a text of `total` bytes to the sample where it was spoken.

    `heard` has, token by token, the bytes of the text so far and the sample of the segment by
    which the token was spoken; the last token may end within a character, before which the text
    ends. If it is of another text, the text is spread over the segment's `samples`.
    """
    known = [(min(size, total), sample) for size, sample in heard]
    if not heard or not 0 <= heard[-1][0] - total < _LONGEST_CHARACTER:
        known = [(total, samples)]
    # Of several tokens of one decode, the last one; times before it are interpolated.
    until = {min(sample, samples): size for size, sample in known}
    return partial(np.interp, xp=[0, *until.values()], fp=[0, *until])


def heard_by(
    pieces: Iterable[tuple[int, bytes]], established: Sequence[int]
) -> list[tuple[int, int]]:
    """Return, for each piece of a text, the bytes up to its end and the sample by which it was
    spoken; `established` has the samples by token.
    """
    size, found = 0, []
    for at, data in pieces:
        size += len(data)
        found.append((size, established[at]))
    return found


# Aligns a final segment: its audio is encoded for the aligner, then an align worker is called.


@dataclass(frozen=True)
class FinalSegment:
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
        checkpoint: ModelCheckpoint,
        dtype: str,
        encode_pool: EncodePool,
        pool: Pool,
        *,
        encoded: bool = False,
    ) -> None:
        """`checkpoint` is the aligner's, which both pools serve. `encoded`: it is the model's, so
        that `encode_pool` has encoded a final's windows for text.

        `encode_pool` makes one attempt at a time within the attempts of `pool`, so that the last
        error is known at the deadline.
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
        """Whether a pool was empty and its first worker is still starting.

        Raises AuricleError if discovery cannot be followed.
        """
        return await self._encode_pool.starting() or await self._pool.starting()

    async def times(self, spoken: FinalSegment, seconds: float) -> tuple[int, ...]:
        """Return begin and end of each word, in milliseconds from the segment's start.

        Retries on other workers. Raises AuricleError: after `seconds` the last error, or
        DeadlineExceeded.
        """
        alignment = await self._alignment(spoken)
        try:
            return await alignment.run(seconds)
        finally:
            alignment.close()

    async def encoded(self, spoken: FinalSegment) -> None:
        """Only have a segment's audio encoded, in one attempt. Raises AuricleError."""
        alignment = await self._alignment(spoken)
        try:
            await alignment.encoded()
        finally:
            alignment.close()

    async def _alignment(self, spoken: FinalSegment) -> _Alignment:
        keys = KeyScheme(self._fingerprint, self._dtype, spoken.tenant)
        audio = spoken.audio.encoded_by(self._geometry, keys)
        windows = await in_thread(audio.windows, spoken.samples)
        return _Alignment(spoken, windows, self._encode_pool, self._pool, encoded=self._encoded)


def _languages(checkpoint: ModelCheckpoint) -> frozenset[str]:
    """Return the languages of an aligner; the empty one if it does not need to know."""
    if checkpoint.architecture.audio != "cross_attention":
        return frozenset({"", *aligned_languages(checkpoint.languages)})
    prompt = checkpoint.architecture.prompt
    return frozenset([*checkpoint.architecture.languages, *([] if prompt.detects else [""])])


class _Alignment:
    """One segment's attempts."""

    def __init__(
        self,
        spoken: FinalSegment,
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


LANGUAGE = "language"  # why a segment has no aligned times


class SessionWords(Annotator):
    """Inserts the words of one session into its events.

    Finals must have words with the times of decodes, from which aligned words take the confidence.
    """

    name = WORDS
    absence = "has no words"

    def __init__(
        self,
        opened: OpenSession,
        rules: AnnotationRules,
        aligner: WordAligner,
        demand: DemandMeter,
    ) -> None:
        super().__init__(opened, rules)
        self._demand = demand
        self._aligner = aligner

    def _seen(self, event: SessionEvent) -> SessionEvent:
        super()._seen(event)
        # Words of the commit grid stay only if the session requested them, too.
        if isinstance(event, SegmentFinal) and event.words and not self._opened.grid_words:
            return replace(event, words=())
        return event

    def _missing(self, segment: int, why: str) -> SegmentWords:
        return SegmentWords(segment, missing=why)

    def _at_once(self, final: SegmentFinal, ended: EndedSegment | None) -> SegmentWords | None:
        if not pieces(final.text, final.language):  # punctuation only
            return SegmentWords(final.segment, (), "aligned")
        if ended is None:
            return None
        if self._opened.to_english or not self._aligner.aligns(final.language):
            return SegmentWords(final.segment, final.words, "commit_grid", LANGUAGE)
        return None

    async def _annotate(self, final: SegmentFinal, ended: EndedSegment) -> SegmentWords:
        split = pieces(final.text, final.language)
        spoken = FinalSegment(
            session=self._opened.session,
            tenant=self._opened.tenant,
            audio=ended.segment.audio,
            samples=ended.samples,
            audio_ms=milliseconds(ended.samples),
            words=tuple(piece.word for piece in split),
            background=self._opened.background,
            trace=self._opened.trace,
            texts=tuple(piece.text for piece in split),
            language=final.language,
            encoder=ended.encoder,
        )
        self._demand.speech(WORDS, ended.samples / SAMPLE_RATE)
        if await self._aligner.starting():
            return self._missing(final.segment, STARTING)
        times = await self._aligner.times(spoken, self._rules.deadline_seconds)
        confidences = [word.confidence for word in final.words] or [None] * len(split)
        return aligned(final.segment, ended.segment.start, split, times, confidences)


# The log probabilities of a segment's tokens, decode after decode. No I/O.

Tokens = tuple[int, ...]


class Pieces(Protocol):
    """The part of `PromptFormat` that is needed here."""

    def pieces(self, tokens: Tokens, language: str | None) -> list[tuple[int, bytes]]:
        """Return the text of an answer token by token: each one's index and its bytes."""
        ...


class Scores:
    """Keeps each token's log probability from the decode that generated it.

    Committed tokens are not generated again. Those that another processor committed have none.
    """

    def __init__(self, prompt: Pieces, language: str | None) -> None:
        """`language` is the one that the prompt forces."""
        self._prompt = prompt
        self._language = language
        self._logprobs: tuple[float | None, ...] = ()
        self._tokens: Tokens = ()

    def decoded(self, committed: Tokens, tokens: Tokens, logprobs: tuple[float, ...]) -> None:
        """Take the result of a decode: `tokens` follow those `committed` before it.

        At a segment's first decode, these are from another processor, or none.
        """
        known = self._logprobs[: len(committed)]
        self._logprobs = known + (None,) * (len(committed) - len(known)) + logprobs
        self._tokens = committed + tokens

    def pieces(self) -> list[tuple[int, bytes, float | None]]:
        """Return the text of the last decode token by token: index, bytes, log probability."""
        pieces = self._prompt.pieces(self._tokens, self._language)
        return [(at, data, self._logprobs[at]) for at, data in pieces]

    def tokens(self) -> tuple[ScoredToken, ...]:
        """Return the tokens of that text; empty if the log probability of one is not known."""
        pieces = self.pieces()
        known = [
            ScoredToken(data, logprob, self._tokens[at])
            for at, data, logprob in pieces
            if logprob is not None
        ]
        return tuple(known) if len(known) == len(pieces) else ()
