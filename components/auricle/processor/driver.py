"""Performs a session's actions: waits, decodes, encodes ahead, measures, reports errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_struct

from auricle.audio.features import FeaturePacket
from auricle.checkpoints.geometry import Geometry
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import cancelled, with_timeout
from auricle.core.errors import AuricleError, DeadlineExceeded, Overloaded
from auricle.load.chunk_load import ChunkLoad
from auricle.process.tracing import OFF, Tracer
from auricle.processor.annotators.words import Pieces, Scores, Tokens, commit_grid, heard_by
from auricle.processor.decode_requests import ContextGuard, GuardedDecodes, LanguageConstraint
from auricle.processor.recognizer import Recognizer
from auricle.processor.session.actions import Abandon, Decode, EncodeAhead, Finish, Send
from auricle.processor.session.open_segment import EndedSegment, OpenSegment
from auricle.processor.session.rules import SessionRules
from auricle.processor.session.state_machine import SessionStateMachine
from auricle.processor.session.windows import KeyScheme
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import DecodeReply
from auricle.protocol.sessions import (
    Accepted,
    Boundary,
    OpenSession,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionEvent,
)
from auricle.protocol.stream import Word
from auricle.protocol.views import STEPS_KEPT_SECONDS, ChunkSteps
from auricle.transcript.confidence import of_words
from auricle.transcript.words import pieces

log = logging.getLogger(__name__)


class TokenAnnotations:
    """Adds the requested tokens and words to the events of one session. No I/O.

    An event is sent before the next decode begins, so it belongs to the last decode. Without a
    decode, another processor has committed all of its text.
    """

    def __init__(self, opened: OpenSession, prompt: Pieces, language: str | None) -> None:
        """`language` is the one that the prompt forces."""
        self._tokens, self._partials = opened.logprobs, opened.grid_words
        # Aligned words take their confidence from here.
        self._finals = opened.grid_words or opened.words
        self._scores = Scores(prompt, language)
        self._last: tuple[OpenSegment, int] | None = None  # and the number of decoded samples

    @property
    def scored(self) -> bool:
        """Whether decodes must return log probabilities."""
        return self._tokens or self._finals

    def decoded(
        self,
        decode: Decode,
        segment: OpenSegment,
        committed: Tokens,
        tokens: Tokens,
        logprobs: tuple[float, ...],
    ) -> None:
        """Store the result of a decode of `segment`; `tokens` follow those `committed` before."""
        if self.scored:
            self._scores.decoded(committed, tokens, logprobs[: len(tokens)])
            self._last = segment, decode.samples

    def annotated(self, event: SessionEvent) -> SessionEvent:
        """Return the event with its tokens and words."""
        if not isinstance(event, SegmentPartial | SegmentFinal) or self._last is None:
            return event
        segment, samples = self._last
        if segment.number != event.segment:
            return event
        if isinstance(event, SegmentPartial):
            if not self._partials:
                return event
            text = event.committed + event.partial
            return replace_struct(event, words=self._words(text, event.language, segment, samples))
        tokens = self._scores.tokens() if self._tokens else ()
        if not self._finals:
            return replace_struct(event, tokens=tokens, words=())
        words = self._words(event.text, event.language, segment, samples)
        return replace_struct(event, tokens=tokens, words=words)

    def _words(
        self, text: str, language: str, segment: OpenSegment, samples: int
    ) -> tuple[Word, ...]:
        split = pieces(text, language)
        if not split:
            return ()
        tokens = self._scores.pieces()
        scored = [(data, logprob) for _, data, logprob in tokens]
        heard = heard_by(((at, data) for at, data, _ in tokens), segment.stability.established)
        confidence = of_words([piece.text for piece in split], scored)
        return commit_grid(segment.start, samples, split, heard, confidence)


# Grid points from a refused decode to the next one: more requests would load a full worker further.
_AFTER_REFUSAL = 4


class Pacing:
    """Lengthens a session's cadence while a worker has no room for its partial decodes. No I/O.

    Slow decodes need no pacing: a session has one decode in progress at most, and skips the grid
    points that pass meanwhile.
    """

    def __init__(self) -> None:
        self._refused = False

    @property
    def stride(self) -> int:
        """Grid points from one decode to the next, at least 1."""
        return _AFTER_REFUSAL if self._refused else 1

    def decoded(self) -> None:
        self._refused = False

    def refused(self) -> None:
        """Record that a decode was refused with Overloaded."""
        self._refused = True


_KEPT = 40


class StepLog:
    """Durations of the steps of one session's last 40 decodes, kept only while they are watched.

    Used on the event loop. No I/O but the clock.
    """

    def __init__(self, usage: UsageMeter, clock: Callable[[], float] = time.monotonic) -> None:
        """`usage` is the session's; its growth is the cost of a chunk."""
        self.last_seconds = 0.0  # from audio to text, of the last chunk that had text
        self._usage = usage
        self._clock = clock
        self._until = float("-inf")
        self._chunks: deque[ChunkSteps] = deque(maxlen=_KEPT)

    def watch(self) -> tuple[ChunkSteps, ...]:
        """Return the kept steps, and keep steps for ten more seconds."""
        self._forget()
        self._until = self._clock() + STEPS_KEPT_SECONDS
        return tuple(self._chunks)

    @contextmanager
    def chunk(self, decode: Decode) -> Iterator[None]:
        """Measure the block as one decode; it may be cancelled or fail."""
        began, before = self._clock(), replace(self._usage)
        try:
            yield
        finally:
            now = self._clock()
            if self._usage.decodes > before.decodes:
                self.last_seconds = now - decode.arrived
            self._forget()
            if now < self._until:
                self._chunks.append(self._steps(decode, before, began, now))

    def _forget(self) -> None:
        if self._clock() >= self._until:
            self._chunks.clear()

    def _steps(self, decode: Decode, before: UsageMeter, began: float, now: float) -> ChunkSteps:
        after, skipped = self._usage, self._usage.decodes == before.decodes
        wait, whole = began - decode.arrived, now - decode.arrived
        mel = after.mel_seconds - before.mel_seconds
        encode = after.encode_seconds - before.encode_seconds
        read = after.read_seconds - before.read_seconds
        decoding = after.decode_seconds - before.decode_seconds
        return ChunkSteps(
            segment=decode.segment,
            audio_seconds=decode.audio_ms / 1000,
            final=decode.task.final,
            skipped=skipped,
            wait=wait,
            mel=mel,
            encode=encode,
            read=read,
            decode=max(0.0, decoding - read),
            rest=max(0.0, whole - wait - mel - encode - decoding),
            whole=whole,
            prompt_tokens=after.prompt_tokens - before.prompt_tokens,
            cached_tokens=after.cached_tokens - before.cached_tokens,
            output_tokens=after.output_tokens - before.output_tokens,
            bytes_read=after.embedding_bytes_read - before.embedding_bytes_read,
            encode_worker="" if skipped else after.encode_worker,
            pd_worker="" if skipped else after.pd_worker,
        )


@dataclass(frozen=True)
class CheckpointView:
    """The properties of the checkpoint that sessions use."""

    geometry: Geometry
    prompt: PromptFormat
    fingerprint: str


class SessionDriver:
    """Runs one session: `events` is its only loop, with one decode task at most.

    The consumer of `events` applies backpressure: while it takes no event, no decode begins.
    Not thread-safe: all methods must be called on the event loop.
    """

    def __init__(
        self,
        opened: OpenSession,
        settings: ProcessorSettings,
        checkpoint: CheckpointView,
        recognizer: Recognizer,
        load: ChunkLoad,
        tracer: Tracer = OFF,
        ahead_turns: asyncio.Semaphore | None = None,
        on_segment: Callable[[EndedSegment], None] | None = None,
    ) -> None:
        """`load` and `ahead_turns` are shared by all sessions of this processor. `on_segment` is
        called with each segment that ends in a decode.

        Decodes of sessions ahead of real time take turns with `ahead_turns`.

        Raises BadRequest if the checkpoint does not support the session's language or any of its
        languages, and if its context is too long, ProtocolError for `opened.whole` as `push` and
        `end` do.
        """
        prompt = checkpoint.prompt.translating() if opened.to_english else checkpoint.prompt
        prompt.check_context(opened.context, settings.context_tokens)
        language = prompt.check_language(opened.language)
        self.session = SessionStateMachine(
            opened,
            SessionRules.of(opened, settings),
            prompt,
            checkpoint.geometry,
            KeyScheme(checkpoint.fingerprint, settings.dtype, opened.tenant),
            language,
        )
        self.opened_at = time.monotonic()
        if (whole := opened.whole) is not None:
            self.session.push(whole.start_sample, whole.pcm, whole.boundary, arrived=self.opened_at)
            self.session.end(whole.total_samples)
        self.tenant, self.background = opened.tenant, opened.background
        self.frontend = opened.frontend
        self.usage = UsageMeter()
        self.steps = StepLog(self.usage)
        self.recognizer = recognizer
        named, before = prompt.language_constraint(opened.languages), opened.resume.language
        self._decoder = GuardedDecodes(
            self.session,
            prompt,
            language,
            LanguageConstraint(self.session, prompt, language, named, self._traced, before),
            ContextGuard(opened.context if settings.context_guard else ""),
        )
        self._annotations = TokenAnnotations(opened, prompt, language)
        self._pacing = Pacing()
        self._load, self._tracer, self._trace = load, tracer, opened.trace
        self._changed = asyncio.Event()  # the session has a new input
        self._room = asyncio.Event()  # the inbox is not full
        self._work: asyncio.Task[None] | None = None
        self._waiting = False
        self._ahead = False  # the client is ahead of real time
        self._ahead_turns = ahead_turns or asyncio.Semaphore()
        self._on_segment = on_segment

    @property
    def speaking(self) -> bool:
        """Whether the open segment has audio; frontends send no silence."""
        return self.session.segment.audio.samples > 0

    # ── from the frontend ───────────────────────────────────────────────────

    async def push(
        self,
        start_sample: int,
        pcm: bytes,
        seconds: float,
        boundary: Boundary = "none",
        features: FeaturePacket | None = None,
        *,
        ahead: bool = False,
    ) -> Accepted:
        """Receive audio, and wait up to `seconds` while the inbox is full.

        `ahead`: the client is ahead of real time, see `PushAudio`.

        Raises ProtocolError as `AudioInbox.check` does, and Overloaded if the inbox stays full.
        """
        inbox = self.session.inbox
        inbox.check(start_sample, pcm)
        try:
            while inbox.full:
                self._room.clear()
                await with_timeout(seconds, self._room.wait(), "room")
        except DeadlineExceeded:
            raise Overloaded(
                f"{inbox.limit_seconds:g} s of audio are waiting to be decoded"
            ) from None
        self.session.push(start_sample, pcm, boundary, features, time.monotonic())
        self._ahead = ahead
        self._changed.set()
        return self._accepted()

    def end(self, total_samples: int) -> Accepted:
        """Declare the audio complete. Raises ProtocolError as `AudioInbox.end` does."""
        self.session.end(total_samples)
        self._changed.set()
        return self._accepted()

    def fail(self, error: AuricleError) -> None:
        """End the session with `error`."""
        self.session.failed(error)
        self._changed.set()

    def hand_over(self) -> None:
        """Stop before the next decode, so that another processor continues the session."""
        self.session.hand_over()
        self._changed.set()

    def _accepted(self) -> Accepted:
        return Accepted(self.session.inbox.received, self.session.wanted_samples)

    # ── to the frontend ─────────────────────────────────────────────────────

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Yield SessionReady, Partials and Finals, and last Done, Failed or HandedOver.

        Closing the generator cancels the decode in progress and ends the session.
        """
        try:
            while not self.session.over:
                match self.session.next_action(self._pacing.stride):
                    case Send(event):
                        yield self._annotations.annotated(event)
                    case Finish(audio_ms):
                        yield SessionDone(self.usage.report(audio_ms))
                    case Abandon(work):
                        await self._abandon(work)
                    case None:
                        await self._wait()
                    case work:
                        self._start(work)
        finally:
            if self._work is not None:
                await cancelled([self._work])
            self.recognizer.close()

    @property
    def idle(self) -> bool:
        """Whether `events` has nothing to yield before the next input."""
        return self._waiting and self._work is None and not self._changed.is_set()

    def _start(self, work: Decode | EncodeAhead) -> None:
        self._work = asyncio.create_task(self._do(work), name="decode")
        self._work.add_done_callback(lambda _: self._changed.set())

    async def _wait(self) -> None:
        """Wait for an input, or for the end of the task in progress."""
        self._make_room()
        self._waiting = True
        try:
            await self._changed.wait()
        finally:
            self._waiting = False
        self._changed.clear()
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            work.result()  # raises an unexpected error, which ends the session

    def _make_room(self) -> None:
        if not self.session.inbox.full:
            self._room.set()

    async def _do(self, work: Decode | EncodeAhead) -> None:
        """Run one action and report its result to the session."""
        try:
            if isinstance(work, Decode):
                with self.steps.chunk(work):
                    await self._decode(work)
            else:
                await self.recognizer.encode_ahead(self.session.segment.audio, self.usage)
                self.session.encoded_ahead()
        except AuricleError as error:
            self.session.failed(error)
        finally:
            self._make_room()

    async def _abandon(self, work: Decode | EncodeAhead) -> None:
        """Cancel the work in progress, which may have ended in the meantime."""
        task, self._work = self._work, None
        if task is None:
            raise AssertionError("no work is in progress")
        if not task.done():
            await cancelled([task])
        if not task.cancelled():
            task.result()
        elif isinstance(work, EncodeAhead):
            self.session.encoded_ahead()
        else:
            if not self._ahead:
                self._load.abandoned(work.arrived)
            self.usage.skipped()
            self.session.skipped()

    async def _decode(self, decode: Decode) -> None:
        final, scored = decode.task.final, self._annotations.scored
        try:
            if self._ahead:
                # These take turns, because each decode delays the batches that live sessions share.
                # Their waiting time does not measure load.
                async with self._ahead_turns:
                    reply = await self._decoder.reply(decode, scored=scored)
            elif final:
                reply = await self._decoder.reply(decode, scored=scored)
            else:
                failures = self.recognizer.failures
                with self._load.chunk(decode.arrived, decode.due) as chunk:
                    reply = await self._decoder.reply(decode, scored=scored)
                    # The time of a decode repeated after a worker failed does not measure load.
                    chunk.counts = self.recognizer.failures == failures
        except Overloaded:
            if final:
                raise
            self._pacing.refused()
            self.usage.skipped()
            self.session.skipped()
            return
        self._pacing.decoded()
        segment = self.session.segment
        committed = segment.stability.committed
        counted = self.session.decoded(reply.tokens, whole=reply.finish != "length")
        if counted < len(reply.tokens):
            log.warning(
                "segment %d, %d ms: the answer repeats itself, met its limit or ended early; "
                "%d of %d tokens count",
                *(decode.segment, decode.audio_ms, counted, len(reply.tokens)),
            )
        tokens = reply.tokens[:counted]
        self._annotations.decoded(decode, segment, committed, tokens, reply.logprobs)
        if self.session.segment is not segment:  # unlike after a final answer that ended early
            if self._on_segment is not None:
                encoder = self.recognizer.encoder
                self._on_segment(EndedSegment(segment, decode.samples, encoder))
            self.recognizer.start_segment()
            self._decoder.start_segment()

    async def _traced(self, decode: Decode, scored: bool) -> DecodeReply:
        audio = self.session.segment.audio
        with self._tracer.span(
            "chunk",
            self._trace,
            segment=decode.segment,
            audio_ms=decode.audio_ms,
            final=decode.task.final,
        ) as trace:
            task = replace(decode.task, trace=trace, background=self._ahead, logprobs=scored)
            return await self.recognizer.decode(audio, decode.samples, task, self.usage)
