"""One connection of Wyoming: what it asks, and one session for each stretch of audio.

Home Assistant opens a connection for each spoken command, and reads once the audio has ended.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from auricle.errors import UnsupportedValue
from auricle.frontend.channel import Channel
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.addresses import host_of
from auricle.frontend.doors.client_gone import ClientGone
from auricle.frontend.doors.front_door import about_to_go
from auricle.frontend.doors.live import LiveSession, Record
from auricle.frontend.doors.options import context_of
from auricle.frontend.doors.tcp import TcpConnection, TcpProtocol
from auricle.frontend.frontend import Frontend
from auricle.frontend.wyoming import events
from auricle.frontend.wyoming.events import AudioFormat, Event, EventParser, Ping, Transcribe
from auricle.frontend.wyoming.transcript import Transcript
from auricle.tasks import Interrupted, LoopTurn, first_failure_or
from auricle.text_bounds import LANGUAGE, check

NAME = "wyoming"
_MOST_HELD = 1 << 16  # of what follows an utterance that has not got its text yet


def wyoming_protocol(frontend: Frontend, access: Access, languages: tuple[str, ...]) -> TcpProtocol:
    """Return Wyoming, for a port of the frontend; `languages` are the names of the model's."""
    server_info = events.info(frontend.model, languages)

    async def serve(connection: TcpConnection) -> None:
        client = access.keyless(frontend.settings.keyless_tenant, "live")
        await _Conversation(frontend, connection, client, server_info).run()

    return TcpProtocol(NAME, serve, events.error)


class _Conversation:
    """All that is said on one connection."""

    def __init__(
        self, frontend: Frontend, connection: TcpConnection, client: Client, info: bytes
    ) -> None:
        self._frontend = frontend
        self._connection = connection
        self._client = client
        self._info = info
        self._parser = EventParser(frontend.settings.max_frame_bytes)
        self._asked = Transcribe()
        self._turn = LoopTurn()

    async def run(self) -> None:
        """Serve the connection until its client leaves. Raises AuricleError if it must end."""
        while True:
            event = await self._next(
                self._frontend.settings.keep_alive_seconds, "the next event", leave_at_once=True
            )
            if event.kind in ("audio-start", "audio-chunk"):
                await self._utterance(event)
            elif event.kind == "audio-stop":
                await self._connection.send(Transcript().whole())
            else:
                await self._answer(event)

    async def _answer(self, event: Event) -> None:
        """Do what an event other than audio asks for; those we do not know are to be dropped."""
        if event.kind == "describe":
            await self._connection.send(self._info)
        elif event.kind == "ping":
            await self._connection.send(events.encode("pong", text=event.read_as(Ping).text))
        elif event.kind == "transcribe":
            self._asked = event.read_as(Transcribe)

    async def _next(self, seconds: float, what: str, *, leave_at_once: bool) -> Event:
        """Return the next event. Raises Overloaded where the server leaves: its deadline is over,
        or, with `leave_at_once`, nothing was being said."""
        door = self._frontend.front_door
        while (event := self._parser.next()) is None:
            if door.ends(lambda: leave_at_once):
                # Half a command must not be taken for a whole one, so there is no text either.
                raise about_to_go()
            try:
                self._parser.feed(await self._connection.read(seconds, what))
            except Interrupted:
                continue
        await self._turn.give_way()
        return event

    # ── one utterance ───────────────────────────────────────────────────────

    async def _utterance(self, first: Event) -> None:
        asked, self._asked = self._asked, Transcribe()
        audio = first.read_as(AudioFormat)
        _check_format(audio)
        self._frontend.check_model(asked.name)
        check("language", asked.language, LANGUAGE)
        context = _context(asked)
        host = host_of(self._connection.client)
        live = self._frontend.live_sessions
        async with live.session(Record(NAME), self._client, host) as session:
            channel = self._channel(session, audio, asked.language, context)
            writer = asyncio.create_task(self._write(channel))
            reader = asyncio.create_task(self._read(channel, audio, first))
            await first_failure_or(writer, [reader, asyncio.create_task(channel.pump())])

    def _channel(
        self, session: LiveSession, audio: AudioFormat, language: str | None, context: str
    ) -> Channel:
        return Channel(
            *(self._frontend, session, audio.rate, "pcm_s16le"),
            language=language or None,
            context=context,
        )

    async def _read(self, channel: Channel, audio: AudioFormat, event: Event) -> None:
        """Read up to the audio's end, then only whether the client stays."""
        idle = self._frontend.settings.idle_timeout_seconds
        while event.kind != "audio-stop":
            if event.kind in ("audio-start", "audio-chunk"):
                if event.read_as(AudioFormat) != audio:
                    raise UnsupportedValue("the audio's format cannot change before audio-stop")
                self._frontend.metrics.bytes("tcp", len(event.payload))
                await channel.take(event.payload)
            else:
                await self._answer(event)
            event = await self._next(idle, "the next audio-chunk", leave_at_once=False)
        await channel.end()
        while self._parser.held < _MOST_HELD:
            self._parser.feed(await self._connection.read_on())
        await asyncio.Event().wait()  # the writer ends the utterance

    async def _write(self, channel: Channel) -> None:
        transcript = Transcript()
        async with aclosing(channel.texts()) as texts:
            async for event in texts:
                if told := transcript.heard(event):
                    await self._connection.send(told)
        try:
            await self._connection.send(transcript.whole())
        except ClientGone:
            return  # it may leave once it has the text


def _check_format(audio: AudioFormat) -> None:
    for name, value in (("width", audio.width), ("channels", audio.channels)):
        right = {"width": 2, "channels": 1}[name]
        if value != right:
            raise UnsupportedValue(f"{name} {value} cannot be used: it must be {right}", name)


def _context(asked: Transcribe) -> str:
    """Return the words that the client expects, as context for the model."""
    words = (*(asked.transcript_names or ()), *(asked.transcript_terms or ()))
    return context_of("transcript_names and transcript_terms", words)
