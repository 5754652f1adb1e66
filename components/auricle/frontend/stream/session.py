"""One session of `/v1/audio/stream`, between the client's socket and a processor."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import milliseconds
from auricle.errors import AuricleError, ProtocolError, from_code
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.sockets import ClientGone, ClientSocket
from auricle.frontend.frontend import Frontend
from auricle.frontend.line.link import ProcessorLink
from auricle.frontend.listening.endpointing import FeaturePiece, GateEvent, Piece, SpeechStarted
from auricle.frontend.listening.feature_ingest import FeatureIngest
from auricle.frontend.listening.ingest import Ingest
from auricle.frontend.stream import protocol
from auricle.messages import Done, Failed, Final, OpenSession, Partial, SessionReady
from auricle.tasks import Interrupted, LoopTurn, first_failure_or
from auricle.text_bounds import CONTEXT


class StreamProtocol:
    """Serves the sessions of `/v1/audio/stream`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        await _Session(self._frontend, socket).run()

    @staticmethod
    def error(error: AuricleError) -> str:
        """Return the last message of a session that failed."""
        after = error.retry_after_seconds
        return protocol.encode(protocol.ErrorReply(error.code, error.for_client, after))


class _Session:
    """The session of one connection, run by three tasks: reader, pump and writer."""

    def __init__(self, frontend: Frontend, socket: ClientSocket) -> None:
        self._frontend = frontend
        self._settings = frontend.settings
        self._socket = socket
        self._name = socket.session
        self._texts: list[str] = []
        self._turn = LoopTurn()
        # Session sample at which the client resumes; set when draining ends this session.
        self._resume_at: int | None = None
        self._told_all = False  # the last message is on its way; the client may leave

    async def run(self) -> None:
        """Run the session until done; see `StreamProtocol.serve`."""
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
            chunk_ms=self._frontend.chunk_ms(start.chunk_ms, self._socket.chunk_multiple),
            partials=start.partials,
            trace=self._socket.trace,
            admission=self._name,
        )
        ingest = self._ingest(start)
        link = self._frontend.link(opened, lead=self._frontend.lead())
        writer = asyncio.create_task(self._write_events(link, opened.chunk_ms))
        others = [asyncio.create_task(self._read(ingest, link)), asyncio.create_task(link.pump())]
        try:
            await first_failure_or(writer, others)
        except ClientGone:
            if not self._told_all:
                raise

    def _ingest(self, start: protocol.Start) -> Ingest | FeatureIngest:
        if start.encoding == protocol.LOG_MEL:
            return FeatureIngest(start.feature_dtype, self._settings.max_segment_seconds)
        options = protocol.endpointing_options(start, self._settings)
        return Ingest(start.sample_rate, start.encoding, self._frontend.detector, options)

    async def _read(self, ingest: Ingest | FeatureIngest, link: ProcessorLink) -> None:
        """Read the client's messages up to `end`, and pass speech on to the link."""
        idle = self._settings.idle_timeout_seconds
        while True:
            if self._frontend.front_door.leaving and await self._left(ingest, link):
                await self._ignored()
            try:
                text, data = await self._socket.receive(idle, "the next audio packet")
            except Interrupted:
                continue
            await self._turn.give_way()
            if text is None:
                self._frontend.metrics.bytes("websocket", len(data))
                await self._take(ingest, data, link)
            else:
                protocol.parse_end(text)
                await self._end(ingest, link)
                break
        # After `end` the client may only listen. Detect if it leaves or sends more.
        await self._socket.gone()
        raise ProtocolError("nothing may follow the end message")

    async def _take(self, ingest: Ingest | FeatureIngest, data: bytes, link: ProcessorLink) -> None:
        """Process a frame slice by slice, however large it is; others run in between."""
        ingest.take(data)
        while ingest.ready:
            began, heard = time.monotonic(), ingest.heard_samples
            events = await ingest.process()
            self._frontend.tracer.record(
                "voice_activity", self._socket.trace, began, time.monotonic()
            )
            await self._hand_over(events, link)
            await self._heard(ingest.heard_samples - heard)
            await self._turn.give_way()

    async def _end(self, ingest: Ingest | FeatureIngest, link: ProcessorLink) -> None:
        heard = ingest.heard_samples
        await self._hand_over(await ingest.end(), link)
        link.finish(ingest.total_samples)
        await self._heard(ingest.heard_samples - heard)

    async def _left(self, ingest: Ingest | FeatureIngest, link: ProcessorLink) -> bool:
        """End the session early, for draining; return whether it was ended.

        It ends between two segments, or at the drain's deadline even within one.
        """
        resume_at = ingest.resting_at
        if resume_at is None:
            if not self._frontend.front_door.last_call:
                return False
            # Only the client can end a segment of features, so `end` raises ProtocolError here.
            await self._hand_over(await ingest.end(), link)
            resume_at = ingest.total_samples
        self._resume_at = resume_at
        self._socket.goes_at(resume_at)
        link.finish(ingest.total_samples)
        return True

    async def _ignored(self) -> None:
        """Discard what the client sends until it has read that the session is over."""
        while True:
            with suppress(Interrupted):
                await self._socket.receive(self._settings.idle_timeout_seconds, "the client to go")

    async def _heard(self, samples: int) -> None:
        """Count processed audio (16 kHz samples); waits if the client exceeds its audio rate."""
        if samples:
            self._frontend.metrics.audio(received=samples / SAMPLE_RATE)
            await self._socket.heard(samples / SAMPLE_RATE)

    async def _hand_over(self, events: list[GateEvent], link: ProcessorLink) -> None:
        """Send speech to the processor, and its start and stop to the client."""
        for event in events:
            if isinstance(event, Piece | FeaturePiece):
                await link.add(event)
            elif isinstance(event, SpeechStarted):
                await self._send(protocol.SpeechStartedReply(milliseconds(event.at)))
            else:
                await self._send(protocol.SpeechStoppedReply(milliseconds(event.at)))

    async def _write_events(self, link: ProcessorLink, chunk_ms: int) -> None:
        """Send the processor's events to the client, until Done. Raises the error of Failed."""
        async with aclosing(link.events()) as events:
            async for event in events:
                if isinstance(event, SessionReady):
                    await self._send(
                        protocol.ReadyReply(self._name, self._frontend.model, chunk_ms)
                    )
                elif isinstance(event, Partial):
                    with self._frontend.tracer.span("send", self._socket.trace):
                        await self._send(protocol.partial_reply(event))
                elif isinstance(event, Final):
                    if event.text:
                        self._texts.append(event.text)
                    await self._send(protocol.final_reply(event))
                elif isinstance(event, Done) and self._resume_at is not None:
                    context = " ".join(self._texts)[-CONTEXT:]
                    # Rounded up, so that no audio of the last segment is transcribed twice.
                    resume_ms = -(-self._resume_at * 1000 // SAMPLE_RATE)
                    await self._send_last(protocol.GoingAwayReply(resume_ms, context))
                elif isinstance(event, Done):
                    await self._send_last(protocol.DoneReply(" ".join(self._texts), event.usage))
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)

    async def _send(self, reply: protocol.Reply) -> None:
        await self._socket.send(protocol.encode(reply))

    async def _send_last(self, reply: protocol.Reply) -> None:
        """Send the last message: a client that leaves once it has it has not left early."""
        self._told_all = True
        try:
            await self._send(reply)
        except ClientGone:
            self._told_all = False
            raise
