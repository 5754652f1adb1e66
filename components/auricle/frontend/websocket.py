"""One WebSocket session, `/v1/audio/stream`: client ⇄ processor."""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import aclosing

from fastapi import WebSocket, WebSocketDisconnect

from auricle.errors import AuricleError, Overloaded, ProtocolError, from_code
from auricle.frontend import protocol
from auricle.frontend.endpointing import GateEvent, Piece, SpeechStarted
from auricle.frontend.ingest import Ingest
from auricle.frontend.link import ProcessorEndpoints, ProcessorLink
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.voice import VoiceDetector
from auricle.messages import Done, Failed, Final, OpenSession, Partial, SessionReady
from auricle.settings import FrontendSettings
from auricle.tasks import first_failure_or, within

log = logging.getLogger(__name__)
_SEND_SECONDS = 20.0
# Close codes: 1000 done, 1008 the client's fault, 1011 ours, 1013 try again later.
_CLOSE_CODES = {"bad_request": 1008, "protocol": 1008, "overloaded": 1013, "deadline": 1008}
_INTERNAL = 1011
TENANT = "default"


class ClientGone(Exception):
    """The client closed or vanished; there is nobody to tell anything."""


class StreamSessions:
    """Serves WebSocket sessions, at most `max_sessions`."""

    def __init__(
        self,
        settings: FrontendSettings,
        model: str,
        endpoints: ProcessorEndpoints,
        detector: VoiceDetector,
        metrics: FrontendMetrics,
    ) -> None:
        self._settings = settings
        self._model = model
        self._endpoints = endpoints
        self._detector = detector
        self._metrics = metrics
        self._open = 0
        metrics.sessions.set_function(lambda: self._open)

    async def serve(self, socket: WebSocket) -> None:
        """The whole life of one connection. Never raises for what a client did."""
        await socket.accept()
        self._open += 1
        try:
            if self._open > self._settings.max_sessions:
                raise Overloaded(f"all {self._settings.max_sessions} sessions are in use")
            await _Session(
                self._settings, self._model, self._endpoints, self._detector, socket
            ).run()
            self._metrics.ended("done")
            await socket.close(1000)
        except ClientGone:
            self._metrics.ended("client_gone")
        except AuricleError as error:
            self._metrics.ended(error.code)
            await _refuse(socket, error)
        except Exception:
            log.exception("a session failed in a way nobody thought of")
            self._metrics.ended(AuricleError.code)
            await _refuse(socket, AuricleError("internal error; see the frontend's log"))
        finally:
            self._open -= 1


class _Session:
    """Reader, pump and writer of one connection."""

    def __init__(
        self,
        settings: FrontendSettings,
        model: str,
        endpoints: ProcessorEndpoints,
        detector: VoiceDetector,
        socket: WebSocket,
    ) -> None:
        self._settings = settings
        self._model = model
        self._endpoints = endpoints
        self._detector = detector
        self._socket = socket
        self._name = uuid.uuid4().hex
        self._texts: list[str] = []

    async def run(self) -> None:
        """Until done; raises AuricleError or ClientGone."""
        start = await self._receive_start()
        opened = OpenSession(
            session=self._name,
            tenant=TENANT,
            language=start.language,
            context=start.context,
            chunk_ms=start.chunk_ms or self._settings.default_chunk_ms,
            partials=start.partials,
        )
        options = protocol.endpointing_options(start, self._settings)
        ingest = Ingest(start.sample_rate, self._detector, options)
        link = ProcessorLink(
            self._endpoints,
            opened,
            deadline_seconds=self._settings.request_deadline_seconds,
            patience_seconds=self._settings.processor_deadline_seconds,
        )
        writer = asyncio.create_task(self._write_events(link, opened.chunk_ms))
        others = [asyncio.create_task(self._read(ingest, link)), asyncio.create_task(link.pump())]
        await first_failure_or(writer, others)

    async def _receive_start(self) -> protocol.Start:
        seconds = self._settings.start_timeout_seconds
        text, _ = await within(seconds, self._receive(), "the start message")
        return protocol.parse_start(text)

    async def _receive(self) -> tuple[str | None, bytes]:
        """(text, b"") or (None, binary)."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise ClientGone
        text = message.get("text")
        return (text, b"") if text is not None else (None, message.get("bytes") or b"")

    async def _read(self, ingest: Ingest, link: ProcessorLink) -> None:
        """Client → link, until `end`."""
        idle = self._settings.idle_timeout_seconds
        while True:
            text, data = await within(idle, self._receive(), "the next audio packet")
            if text is not None:
                protocol.parse_end(text)
                await self._hand_over(await ingest.end(), link)
                link.finish(ingest.total_samples)
                break
            await self._hand_over(await ingest.push(data), link)
        await self._watch_after_end()

    async def _hand_over(self, events: list[GateEvent], link: ProcessorLink) -> None:
        """Speech goes to the processor, when it started and stopped to the client."""
        for event in events:
            if isinstance(event, Piece):
                await link.add(event)
            elif isinstance(event, SpeechStarted):
                await self._send(protocol.SpeechStartedReply(protocol.milliseconds(event.at)))
            else:
                await self._send(protocol.SpeechStoppedReply(protocol.milliseconds(event.at)))

    async def _watch_after_end(self) -> None:
        """After `end` the client only listens; notice if it goes or goes on."""
        await self._receive()
        raise ProtocolError("nothing may follow the end message")

    async def _write_events(self, link: ProcessorLink, chunk_ms: int) -> None:
        """Processor → client, until done or failed."""
        async with aclosing(link.events()) as events:
            async for event in events:
                if isinstance(event, SessionReady):
                    await self._send(protocol.ReadyReply(self._name, self._model, chunk_ms))
                elif isinstance(event, Partial):
                    await self._send(protocol.partial_reply(event))
                elif isinstance(event, Final):
                    if event.text:
                        self._texts.append(event.text)
                    await self._send(protocol.final_reply(event))
                elif isinstance(event, Done):
                    await self._send(protocol.DoneReply(" ".join(self._texts), event.usage))
                elif isinstance(event, Failed):
                    raise from_code(event.code, event.message)

    async def _send(self, reply: protocol.Reply) -> None:
        try:
            await within(
                _SEND_SECONDS, self._socket.send_text(protocol.encode(reply)), "a slow reader"
            )
        except (WebSocketDisconnect, RuntimeError):
            raise ClientGone from None


async def _refuse(socket: WebSocket, error: AuricleError) -> None:
    """Tell the client what went wrong, then close."""
    if _CLOSE_CODES.get(error.code, _INTERNAL) == _INTERNAL:
        log.error("session failed: %s", error)
    try:
        reply = protocol.ErrorReply(error.code, str(error))
        await within(_SEND_SECONDS, socket.send_text(protocol.encode(reply)), "the error message")
        await socket.close(_CLOSE_CODES.get(error.code, _INTERNAL))
    except (WebSocketDisconnect, RuntimeError, AuricleError):
        log.debug("the client left before the error reached it")
