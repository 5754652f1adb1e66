"""One session of `/v1/audio/stream`, between the client's socket and a processor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.core.errors import AuricleError, ProtocolError
from auricle.core.limits import CONTEXT
from auricle.frontend.audio.chunks import (
    AudioChunk,
    AudioEvent,
    FeatureChunk,
    Mark,
    SpeechEnd,
    SpeechOnset,
    TurnPause,
    TurnResumption,
)
from auricle.frontend.audio.ingest import FeatureIngest, Ingest
from auricle.frontend.audio.resume_state import Stall
from auricle.frontend.frontend import Frontend
from auricle.frontend.protocols.stream import messages as protocol
from auricle.frontend.protocols.stream.refusals import ResumeTakenOver
from auricle.frontend.protocols.stream.resume import ResumeTokens
from auricle.frontend.protocols.stream.start import Beginning, begin, parse_end, parse_start
from auricle.frontend.session.channels import Channel, SessionEngine
from auricle.frontend.transport.admission import first_message
from auricle.frontend.transport.message_writer import MessageWriter
from auricle.frontend.transport.websockets import ClientSocket
from auricle.protocol import stream
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation
from auricle.protocol.sessions import (
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionDone,
    SessionEvent,
    SessionReady,
)
from auricle.transcript.confidence import of_text


def partial_reply(event: SegmentPartial) -> stream.Partial:
    return stream.Partial(
        event.segment, event.committed, event.partial, event.audio_ms, event.language
    )


def final_reply(event: SegmentFinal) -> stream.Final:
    return stream.Final(event.segment, event.text, event.start_ms, event.end_ms, event.language)


def mark_reply(event: Mark) -> stream.SpeechMark:
    at_ms = milliseconds(event.at)
    match event:
        case SpeechOnset():
            return stream.SpeechStarted(at_ms)
        case SpeechEnd():
            return stream.SpeechStopped(at_ms)
        case TurnPause():
            return stream.TurnPaused(at_ms, round(event.probability, 3))
        case TurnResumption():
            return stream.TurnResumed(at_ms)


def words_reply(event: SegmentWords) -> stream.Words:
    confidence = of_text(word.confidence for word in event.words)
    return stream.Words(event.segment, event.words, event.source, event.missing or None, confidence)


def grid_words_reply(event: SegmentFinal) -> stream.Words:
    confidence = of_text(word.confidence for word in event.words)
    return stream.Words(event.segment, event.words, event.word_source, None, confidence)


def speakers_reply(event: SegmentSpeakers) -> stream.Speakers:
    return stream.Speakers(event.segment, event.parts, event.source, event.missing or None)


def translation_reply(event: SegmentTranslation) -> stream.Translation:
    return stream.Translation(
        *(event.segment, event.language, event.committed, event.partial, event.final),
        event.missing or None,
    )


class StreamProtocol:
    """Serves the sessions of `/v1/audio/stream`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend, tokens: ResumeTokens) -> None:
        self._frontend = frontend
        self._tokens = tokens

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientDisconnected if the
        client leaves."""
        seconds = self._frontend.settings.start_timeout_seconds
        text, _ = await first_message(socket.receive(seconds, "the start message"))
        beginning = begin(self._frontend, self._tokens, socket, parse_start(text))
        key = socket.client.key
        served = self._frontend.peers.serving(
            beginning.name, key.name, key.max_sessions, resumes=socket.resumes
        )
        async with served as taken_over:
            await _Session(self._frontend, socket, beginning).serve(taken_over)

    @staticmethod
    def error(error: AuricleError) -> str:
        after, param = error.retry_after_seconds, error.param
        return protocol.encode(stream.Error(error.code, error.for_client, after, param))


class _Session(Channel[Ingest | FeatureIngest]):
    """The session of one connection."""

    def __init__(self, frontend: Frontend, socket: ClientSocket, beginning: Beginning) -> None:
        super().__init__(frontend, socket, beginning.ingest, beginning.link)
        self._socket = socket
        self._begun = beginning
        self._delivery = beginning.delivery
        self._engine = SessionEngine(frontend, self)
        self._idle_seconds = frontend.settings.idle_timeout_seconds
        # Messages are sent in the order in which the tracker records them.
        self._writer = MessageWriter(socket)
        self._texts: list[str] = []
        # Segments whose final was sent on this connection: the annotations of others are dropped.
        self._pending_words: set[int] = set()
        self._pending_speakers: set[int] = set()

    async def serve(self, taken_over: asyncio.Event) -> None:
        """Run the session until done, or `taken_over`; see `StreamProtocol.serve`."""
        with self._writer.may_leave():
            await self._engine.run(self._read(), _until(taken_over))

    # ── from the client ─────────────────────────────────────────────────────

    async def _read(self) -> None:
        """Read the client's messages up to `end`."""
        while (message := await self._engine.receive(self._receive)) is not None:
            text, data = message
            if text is None:
                self._frontend.metrics.bytes("websocket", len(data))
                await self.take(data)
            else:
                parse_end(text)
                await self._engine.end()
                break
        else:
            self._socket.end_early(await self._engine.leave())
        await self._socket.read_up()

    async def _receive(self) -> tuple[str | None, bytes]:
        return await self._socket.receive(
            self._idle_seconds, "the next audio packet", self.missing_bytes
        )

    async def end_speech(self) -> None:
        """End the speech so far. Raises ProtocolError within a segment of features."""
        if self.ingest.checkpoint is None:
            raise ProtocolError("this server is shutting down, and only you can end a segment")
        await super().end_speech()

    async def deliver(self, events: list[AudioEvent]) -> None:
        """Send speech without text to the processor, and its start and stop to the client."""
        await super().deliver([kept for one in events if (kept := self._begun.without_text(one))])

    async def on_endpointing(self, events: list[AudioEvent]) -> None:
        """Send the start and stop of speech to the client, unless it received them before."""
        for event in events:
            if not isinstance(event, AudioChunk | FeatureChunk) and self._delivery.found_mark():
                await self._send(mark_reply(event), self._delivery.sent_mark)

    @property
    def stall_needed(self) -> int | None:
        """None while tokens hold as many stalls as they may, until more text is sent."""
        return None if self._delivery.full_of_stalls else super().stall_needed

    def stalled(self, samples: int) -> None:
        self._delivery.stalled(Stall(self.total_samples, samples))

    async def count(self) -> int:
        """Return how many of the samples processed now were not sent on an earlier connection."""
        new = self._delivery.received_audio(
            self.ingest.received_samples, lambda: self.ingest.checkpoint
        )
        if self._delivery.checkpoint_due and self._begun.offer is not None:
            await self._send(stream.Checkpoint())
        return new

    def finish(self) -> None:
        """The audio has ended. If draining ends the session, it can continue from here."""
        if self._engine.left_at is not None:
            received = self.ingest.received_samples
            self._delivery.received_audio(received, lambda: self.ingest.checkpoint, ended=True)
        super().finish()

    # ── to the client ───────────────────────────────────────────────────────

    async def on_event(self, event: SessionEvent) -> None:
        match event:
            case SessionReady():
                name, chunk_ms = self._begun.name, self._begun.chunk_ms
                await self._send(stream.Ready(name, self._frontend.model, chunk_ms))
            case SegmentPartial() | SegmentFinal():
                await self._send_text(event)
            case SegmentWords() if event.segment in self._pending_words:
                self._pending_words.remove(event.segment)
                await self._send(words_reply(event))
            case SegmentSpeakers() if event.segment in self._pending_speakers:
                self._pending_speakers.remove(event.segment)
                noted = partial(self._delivery.sent_speakers, event)
                await self._send(speakers_reply(event), noted)
            case SegmentTranslation():
                noted = partial(self._delivery.sent_translation, event)
                await self._send(translation_reply(event), noted)
            case SessionDone() if self._engine.failure is None:
                await self._send_last(event)

    async def _send_text(self, event: SegmentPartial | SegmentFinal) -> None:
        """Send text, unless the client received it on an earlier connection."""
        if not self._delivery.is_new(event):
            return
        if isinstance(event, SegmentPartial):
            with self._frontend.tracer.span("send", self._socket.trace):
                await self._send(partial_reply(event), lambda: self._delivery.sent_text(event))
            return
        if event.text:
            self._texts.append(event.text)
            self._pending_words.add(event.segment)
            self._pending_speakers.add(event.segment)
        await self._send(final_reply(event), lambda: self._delivery.sent_text(event))
        if event.words:
            await self._send(grid_words_reply(event))

    async def _send(
        self, reply: stream.Resumable, noted: Callable[[], None] = lambda: None
    ) -> None:
        """Send a message with the token of the session after it; `noted` records it."""

        def made() -> list[str]:
            noted()
            return [self._resumable(reply)]

        await self._writer.write(made)

    async def _send_last(self, done: SessionDone) -> None:
        text, left_at = " ".join(self._texts), self._engine.left_at

        def made() -> list[str]:
            if left_at is None:
                return [protocol.encode(stream.Done(text, done.usage))]
            # Rounded up, so that no audio of the last segment is transcribed twice.
            resume_ms = -(-left_at * 1000 // SAMPLE_RATE)
            return [self._resumable(stream.GoingAway(resume_ms, text[-CONTEXT:]))]

        await self._writer.write_last(made)

    def _resumable(self, reply: stream.Resumable) -> str:
        if self._begun.offer is not None:
            reply = replace(reply, resume=self._begun.offer())
        return protocol.encode(reply)


async def _until(taken_over: asyncio.Event) -> None:
    await taken_over.wait()
    raise ResumeTakenOver
