"""`WS /v1/listen`: one session, between the client's socket and a processor."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import AuricleError, DeadlineExceeded, ProtocolError, from_code
from auricle.frontend.deepgram import messages
from auricle.frontend.deepgram.messages import (
    CloseStream,
    Configure,
    Finalize,
    NoAudio,
    Replies,
    Reply,
)
from auricle.frontend.deepgram.options import ListenOptions, parse_options
from auricle.frontend.deepgram.utterances import Utterances
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.sockets import ClientSocket, SocketProtocol
from auricle.frontend.frontend import Frontend
from auricle.frontend.listening.endpointing import EndpointingOptions, GateEvent, Piece
from auricle.frontend.listening.ingest import Ingest
from auricle.frontend.listening.point import BEGIN, ListeningPoint
from auricle.messages import Done, Failed, Final, OpenSession, Partial
from auricle.tasks import Interrupted, LoopTurn, first_failure_or

# A browser's client offers one of these, and then its key, as subprotocols.
_SUBPROTOCOLS = ("token", "bearer")


def listen_protocol(frontend: Frontend) -> SocketProtocol:
    """Return the protocol of `/v1/listen`, for the frontend's event loop."""
    listen = ListenProtocol(frontend)
    return SocketProtocol(
        *("listen", listen.serve, listen.error, _SUBPROTOCOLS),
        check=listen.check,
        denial=messages.denial,
    )


class ListenProtocol:
    """Serves the sessions of `/v1/listen`, on the frontend's event loop."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    def check(self, query: str) -> None:
        """Raise BadRequest, before the handshake, if the query's options cannot be served."""
        self._frontend.check_model(parse_options(query).model)

    async def serve(self, socket: ClientSocket) -> None:
        """Serve one session until done. Raises AuricleError if it fails, ClientGone if the client
        leaves."""
        await _Session(self._frontend, socket, parse_options(socket.query_string)).run()

    @staticmethod
    def error(error: AuricleError) -> str:
        """Return the last message of a session that failed."""
        return messages.encode(messages.error_message(error))


class _Session:
    """The session of one connection, run by three tasks: reader, pump and writer."""

    def __init__(self, frontend: Frontend, socket: ClientSocket, options: ListenOptions) -> None:
        self._frontend = frontend
        self._door = frontend.front_door
        self._socket = socket
        self._options = options
        self._replies = Replies(socket.session, frontend.model)
        self._utterances = Utterances(options, self._replies)
        self._link = frontend.link(
            OpenSession(
                session=socket.session,
                tenant=socket.client.tenant,
                language=options.language,
                context=options.context,
                chunk_ms=frontend.chunk_ms(None),
                partials=options.interim_results,
                trace=socket.trace,
                admission=socket.session,
            ),
            lead=frontend.lead(),
        )
        self._ingest = self._listening(BEGIN)
        self._counted = 0  # session samples that were counted as heard
        self._part = b""  # of a sample
        self._digest = hashlib.sha256()
        self._created = datetime.now(UTC)
        self._turn = LoopTurn()
        # What is found by the reader and by the writer is told in one order.
        self._telling = asyncio.Lock()
        self._told_all = False  # the last message is on its way; the client may leave

    async def run(self) -> None:
        """Run the session until done; see `ListenProtocol.serve`."""
        writer = asyncio.create_task(self._write())
        others = [asyncio.create_task(part) for part in (self._read(), self._link.pump())]
        try:
            await first_failure_or(writer, others)
        except ClientGone:
            if not self._told_all:
                raise

    def _listening(self, start: ListeningPoint) -> Ingest:
        wanted, frontend = self._options, self._frontend
        # Silence is dropped with `endpointing=false` too: the model would hallucinate words there.
        endpointing = EndpointingOptions.over(
            frontend.settings, threshold=None, min_silence_ms=wanted.silence_ms, pre_roll_ms=None
        )
        return Ingest(
            wanted.sample_rate, wanted.encoding, frontend.detector, endpointing, start=start
        )

    # ── from the client ─────────────────────────────────────────────────────

    async def _read(self) -> None:
        while True:
            if self._door.leaving and await self._left():
                break
            try:
                text, data = await self._next()
            except Interrupted:
                continue
            await self._turn.give_way()
            if text is None:
                self._frontend.metrics.bytes("websocket", len(data))
                await self._take(data)
            elif await self._closed_by(text):
                await self._end()
                self._link.finish(self._ingest.total_samples)
                break
        while True:  # clients may send KeepAlive until they have read that the session is over
            await self._socket.gone()
            await self._turn.give_way()

    async def _next(self) -> tuple[str | None, bytes]:
        idle = self._frontend.settings.listen_idle_seconds
        enough = self._ingest.expect(self._link.missing)
        try:
            return await self._socket.receive(idle, "audio or a KeepAlive message", enough)
        except DeadlineExceeded:
            raise NoAudio(idle) from None

    async def _closed_by(self, text: str) -> bool:
        """Do what a text message asks for; return whether it ends the audio."""
        try:
            message = messages.parse_message(text)
        except ProtocolError as error:
            answer = messages.schema_error(error, text)
            await self._tell(lambda: [answer])
            return False
        if isinstance(message, Finalize):
            await self._finalize()
        elif isinstance(message, Configure):
            await self._tell(lambda: [self._replies.configure_failure()])
        return isinstance(message, CloseStream)

    async def _take(self, data: bytes) -> None:
        """Process a frame slice by slice, however large it is; others run in between."""
        self._digest.update(data)
        self._ingest.take(self._whole(data))
        while self._ingest.ready:
            events = await self._frontend.listened(self._ingest, self._socket.trace)
            await self._hand_over(events)
            await self._turn.give_way()

    def _whole(self, data: bytes) -> bytes:
        """Return whole samples: `Finalize` may come within one, which then goes on after it."""
        if self._options.encoding != "pcm_s16le" or not (self._part or len(data) % 2):
            return data
        data = self._part + data
        whole = len(data) & ~1
        self._part = data[whole:]
        return data[:whole]

    async def _hand_over(self, events: list[GateEvent]) -> None:
        """Send speech to the processor, and what was found to the client; count the audio."""
        ingest = self._ingest
        await self._tell(lambda: self._utterances.heard(events, ingest.total_samples))
        for event in events:
            if isinstance(event, Piece):
                await self._link.add(event)
        seconds = (ingest.total_samples - self._counted) / SAMPLE_RATE
        self._counted = ingest.total_samples
        if seconds:
            self._frontend.metrics.audio(received=seconds)
            await self._socket.heard(seconds)

    async def _finalize(self) -> None:
        """End the speech so far, and listen anew to what follows."""
        await self._end()
        at = self._ingest.total_samples
        self._ingest = self._listening(ListeningPoint(at, at, at))
        await self._tell(lambda: self._utterances.finalized(at))

    async def _end(self) -> None:
        await self._hand_over(await self._ingest.end())

    async def _left(self) -> bool:
        """End the session early, for draining; return whether it was ended.

        It ends between two segments, or at the drain's deadline even within one.
        """
        resume_at = self._ingest.resting_at
        if resume_at is None:
            if not self._door.last_call:
                return False
            await self._end()
            resume_at = self._ingest.total_samples
        self._socket.goes_at(resume_at)
        self._link.finish(self._ingest.total_samples)
        return True

    # ── to the client ───────────────────────────────────────────────────────

    async def _write(self) -> None:
        """Send the processor's text, until Done. Raises the error of Failed."""
        async with aclosing(self._link.events()) as events:
            async for event in events:
                if isinstance(event, Partial):
                    with self._frontend.tracer.span("send", self._socket.trace):
                        await self._tell(partial(self._utterances.partial, event))
                elif isinstance(event, Final):
                    await self._tell(partial(self._utterances.final, event))
                elif isinstance(event, Done):
                    await self._tell_last()
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)

    async def _tell(self, found: Callable[[], list[Reply]]) -> None:
        """Send the messages that `found` makes of what was found."""
        async with self._telling:
            if self._told_all:
                return
            for reply in found():
                await self._socket.send(messages.encode(reply))

    async def _tell_last(self) -> None:
        """Send the last message: a client that leaves once it has it has not left early."""
        last = self._replies.metadata(
            self._counted / SAMPLE_RATE,
            self._digest.hexdigest(),
            self._created,
            self._options.warnings,
        )
        async with self._telling:
            self._told_all = True
            try:
                await self._socket.send(messages.encode(last))
            except ClientGone:
                self._told_all = False
                raise
