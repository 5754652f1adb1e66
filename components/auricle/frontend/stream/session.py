"""One session of `/v1/audio/stream`: client ⇄ processor."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.errors import AuricleError, ProtocolError, from_code
from auricle.frontend.admission import about_to_go
from auricle.frontend.backend import Backend
from auricle.frontend.endpointing import FeaturePiece, GateEvent, Piece, SpeechStarted
from auricle.frontend.feature_ingest import FeatureIngest
from auricle.frontend.ingest import Ingest
from auricle.frontend.link import ProcessorLink
from auricle.frontend.sockets import ClientSocket
from auricle.frontend.stream import protocol
from auricle.messages import Done, Failed, Final, OpenSession, Partial, SessionReady
from auricle.settings import MAX_CONTEXT_CHARACTERS
from auricle.tasks import Interrupted, first_failure_or


class StreamProtocol:
    """Serves its sessions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def serve(self, socket: ClientSocket) -> None:
        """One session until done; raises AuricleError or ClientGone."""
        await _Session(self._backend, socket).run()

    @staticmethod
    def error(error: AuricleError) -> str:
        """The last message of a session that failed."""
        after = getattr(error, "retry_after_seconds", 0.0)
        return protocol.encode(protocol.ErrorReply(error.code, str(error), after))


class _Session:
    """Reader, pump and writer of one connection."""

    def __init__(self, backend: Backend, socket: ClientSocket) -> None:
        self._backend = backend
        self._settings = backend.settings
        self._socket = socket
        self._name = socket.session
        self._texts: list[str] = []
        self._resume_at: int | None = None  # set where the session ends as we are about to go

    async def run(self) -> None:
        """Until done; raises AuricleError or ClientGone."""
        seconds = self._settings.start_timeout_seconds
        try:
            text, _ = await self._socket.receive(seconds, "the start message")
        except Interrupted:
            raise about_to_go() from None
        start = protocol.parse_start(text)
        opened = OpenSession(
            session=self._name,
            tenant=self._socket.client.tenant,
            language=start.language,
            context=start.context,
            chunk_ms=self._backend.chunk_ms(start.chunk_ms, self._socket.stretch),
            partials=start.partials,
            trace=self._socket.trace,
        )
        ingest = self._ingest(start)
        link = self._backend.link(opened)
        writer = asyncio.create_task(self._write_events(link, opened.chunk_ms))
        others = [asyncio.create_task(self._read(ingest, link)), asyncio.create_task(link.pump())]
        await first_failure_or(writer, others)

    def _ingest(self, start: protocol.Start) -> Ingest | FeatureIngest:
        if start.encoding == protocol.LOG_MEL:
            return FeatureIngest(start.feature_dtype, self._settings.max_segment_seconds)
        options = protocol.endpointing_options(start, self._settings)
        return Ingest(start.sample_rate, start.encoding, self._backend.detector, options)

    async def _read(self, ingest: Ingest | FeatureIngest, link: ProcessorLink) -> None:
        """Client → link, until `end`."""
        idle = self._settings.idle_timeout_seconds
        while True:
            if self._backend.front_door.leaving and await self._left(ingest, link):
                await self._ignored()
            try:
                text, data = await self._socket.receive(idle, "the next audio packet")
            except Interrupted:
                continue
            heard = ingest.total_samples
            if text is None:
                self._backend.metrics.bytes("websocket", len(data))
                events = await self._push(ingest, data)
            else:
                protocol.parse_end(text)
                events = await ingest.end()
            await self._hand_over(events, link)
            if text is not None:
                link.finish(ingest.total_samples)
            await self._heard(ingest.total_samples - heard)
            if text is not None:
                break
        # After `end` the client only listens; notice if it goes or goes on.
        await self._socket.gone()
        raise ProtocolError("nothing may follow the end message")

    async def _left(self, ingest: Ingest | FeatureIngest, link: ProcessorLink) -> bool:
        """End the session between two segments, or in any case once it is time."""
        resume_at = ingest.resting_at
        if resume_at is None:
            if not self._backend.front_door.last_call:
                return False
            # Features of an open segment cannot be ended here: their client is cut off.
            await self._hand_over(await ingest.end(), link)
            resume_at = ingest.total_samples
        self._resume_at = resume_at
        self._socket.goes_at(resume_at)
        link.finish(ingest.total_samples)
        return True

    async def _ignored(self) -> None:
        """What the client sends until it has read that it is to go."""
        while True:
            with suppress(Interrupted):
                await self._socket.receive(self._settings.idle_timeout_seconds, "the client to go")

    async def _push(self, ingest: Ingest | FeatureIngest, data: bytes) -> list[GateEvent]:
        began, heard = time.monotonic(), ingest.total_samples
        events = await ingest.push(data)
        if ingest.total_samples != heard:  # not only held until there is more
            self._backend.tracer.record(
                "voice_activity", self._socket.trace, began, time.monotonic()
            )
        return events

    async def _heard(self, samples: int) -> None:
        """Audio that was looked at: counted, and charged to the client's limits."""
        if samples:
            self._backend.metrics.audio(received=samples / SAMPLE_RATE)
            await self._socket.client.charge(samples / SAMPLE_RATE)

    async def _hand_over(self, events: list[GateEvent], link: ProcessorLink) -> None:
        """Speech goes to the processor, when it started and stopped to the client."""
        for event in events:
            if isinstance(event, Piece | FeaturePiece):
                await link.add(event)
            elif isinstance(event, SpeechStarted):
                await self._send(protocol.SpeechStartedReply(milliseconds(event.at)))
            else:
                await self._send(protocol.SpeechStoppedReply(milliseconds(event.at)))

    async def _write_events(self, link: ProcessorLink, chunk_ms: int) -> None:
        """Processor → client, until done or failed."""
        async with aclosing(link.events()) as events:
            async for event in events:
                if isinstance(event, SessionReady):
                    await self._send(protocol.ReadyReply(self._name, self._backend.model, chunk_ms))
                elif isinstance(event, Partial):
                    with self._backend.tracer.span("send", self._socket.trace):
                        await self._send(protocol.partial_reply(event))
                elif isinstance(event, Final):
                    if event.text:
                        self._texts.append(event.text)
                    await self._send(protocol.final_reply(event))
                elif isinstance(event, Done) and self._resume_at is not None:
                    context = " ".join(self._texts)[-MAX_CONTEXT_CHARACTERS:]
                    # Up, so that nothing of the last segment is heard twice.
                    resume_ms = -(-self._resume_at * 1000 // SAMPLE_RATE)
                    await self._send(protocol.GoingAwayReply(resume_ms, context))
                elif isinstance(event, Done):
                    await self._send(protocol.DoneReply(" ".join(self._texts), event.usage))
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)

    async def _send(self, reply: protocol.Reply) -> None:
        await self._socket.send(protocol.encode(reply))
