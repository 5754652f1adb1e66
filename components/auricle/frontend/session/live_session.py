"""One session on a WebSocket, between the client and processors.

What protocols have of their own is a `Dialect`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import LoopTurn
from auricle.core.errors import AuricleError, DeadlineExceeded
from auricle.frontend.audio.chunks import GateEvent, Interleaved
from auricle.frontend.audio.turn_detection import Silence
from auricle.frontend.frontend import Frontend
from auricle.frontend.session.adapter import AudioOptions, Reply, encode
from auricle.frontend.session.engine import SessionEngine, Text, TextChannel
from auricle.frontend.transport.message_writer import MessageWriter
from auricle.frontend.transport.websockets import ClientSocket
from auricle.protocol.sessions import SegmentFinal, SegmentPartial

# One channel of a session: its audio to a processor, and what becomes of it to the client.


class Talk(Protocol):
    """What a client is told of one channel's speech, and when. Calls must not overlap.

    Positions are session samples (16 kHz).
    """

    def heard(self, events: Sequence[GateEvent], until: int) -> list[Reply]:
        """Endpointing has found `events`; it has listened up to sample `until`.

        Call this before the processor gets the pieces: their text may come at once.
        """
        ...

    def finalized(self, at: int) -> list[Reply]:
        """The client wants the text of all audio up to `at`, where its speech was ended."""
        ...

    def partial(self, event: SegmentPartial) -> list[Reply]:
        """The open segment has text that may change."""
        ...

    def final(self, event: SegmentFinal) -> list[Reply]:
        """A segment has its final text."""
        ...


# Sends the messages that a function makes; those of all channels leave in one order.
Tell = Callable[[Callable[[], list[Reply]]], Awaitable[None]]


class SpokenChannel(TextChannel):
    """One channel of a connection, whose speech and text become messages."""

    def __init__(
        self,
        frontend: Frontend,
        socket: ClientSocket,
        options: AudioOptions,
        number: int,
        talk: Talk,
        tell: Tell,
    ) -> None:
        """`number` counts from 0, among the `options.channels` of the connection."""
        self._silence = options.silence
        self._next_silence: Silence | None = None  # in effect once nobody speaks
        self._talk = talk
        self._tell = tell
        named = replace(
            options,
            name=socket.sessions[number],
            call=socket.session,
            part=str(number) if options.channels > 1 else "",
        )
        super().__init__(frontend, socket, named)

    async def take(self, data: bytes) -> None:
        """Process whole samples slice by slice, however many; others run in between."""
        if self._next_silence is not None and self.resting_at is not None:
            self._silence, self._next_silence = self._next_silence, None
            await self.listen_anew(self._silence)
        await super().take(data)

    def end_speech_after(self, silence: Silence) -> None:
        """Let speech end after such a silence, from when nobody speaks on."""
        self._next_silence = silence

    async def finalize(self) -> None:
        """End the speech so far, and listen anew to what follows."""
        at = await self.listen_anew(self._silence)
        await self._tell(lambda: self._talk.finalized(at))

    async def found(self, events: Sequence[GateEvent]) -> None:
        """Tell the client of speech and silences."""
        until = self.heard_samples
        await self._tell(lambda: self._talk.heard(events, until))

    async def text(self, event: Text) -> None:
        """Tell the client of new text."""
        if isinstance(event, SegmentFinal):
            await self._tell(partial(self._talk.final, event))
        else:
            with self._frontend.tracer.span("send", self._speaker.trace):
                await self._tell(partial(self._talk.partial, event))


@dataclass(frozen=True)
class ClientCommand:
    """What a text message asks for: `replies` makes its answer.

    `finalize`: all audio so far becomes final. `ends`: the audio has ended. `silence`: speech ends
    after such a silence from now on.
    """

    replies: Callable[[], list[Reply]] = list
    finalize: bool = False
    ends: bool = False
    silence: Silence | None = None


@dataclass(frozen=True)
class Summary:
    """What was heard in a session: `seconds` of audio, whose bytes have that SHA-256.

    `left`: this server shuts down, and the client may go on elsewhere.
    """

    seconds: float
    sha256: str
    created: datetime
    left: bool


class Dialect(Protocol):
    """How one protocol speaks. No I/O."""

    @property
    def idle_seconds(self) -> float:
        """How long a client may send nothing."""
        ...

    def idle(self) -> AuricleError:
        """Return the error of a client that sent nothing for longer."""
        ...

    def talk(self, channel: int) -> Talk:
        """Return what tells the client of one channel; it is called for each, in order."""
        ...

    def first(self) -> list[Reply]:
        """Return the messages that a session begins with."""
        ...

    def asked(self, text: str) -> ClientCommand:
        """Return what a text message asks for. Raises ProtocolError if that ends the session."""
        ...

    def last(self, heard: Summary) -> list[Reply]:
        """Return the last messages of a session."""
        ...


class ProtocolSession:
    """The session of one connection, whose messages a `Dialect` makes."""

    def __init__(
        self, frontend: Frontend, socket: ClientSocket, options: AudioOptions, dialect: Dialect
    ) -> None:
        self._frontend = frontend
        self._socket = socket
        self._dialect = dialect
        self._writer = MessageWriter(socket)
        self._channels = [
            SpokenChannel(frontend, socket, options, number, dialect.talk(number), self._tell)
            for number in range(options.channels)
        ]
        self._engine = SessionEngine(frontend, *self._channels)
        sample_bytes = 2 if options.encoding == "pcm_s16le" else 1
        self._interleaved = Interleaved(options.channels, sample_bytes)
        self._digest = hashlib.sha256()
        self._created = datetime.now(UTC)
        self._loop_turn = LoopTurn()

    async def run(self) -> None:
        """Serve the session until done. Raises AuricleError if it fails, ClientDisconnected if the
        client leaves."""
        await self._tell(self._dialect.first)
        with self._writer.may_leave():
            await self._engine.run(self._read(), last=self._tell_last)

    # ── from the client ─────────────────────────────────────────────────────

    async def _read(self) -> None:
        while (message := await self._engine.receive(self._next)) is not None:
            text, data = message
            await self._loop_turn.give_way()
            if text is None:
                await self._take(data)
            elif await self._ended_by(text):
                await self._engine.end()
                break
        else:
            self._socket.end_early(await self._engine.leave())
        while True:  # clients may send KeepAlive until they have read that the session is over
            await self._socket.gone()
            await self._loop_turn.give_way()

    async def _next(self) -> tuple[str | None, bytes]:
        enough = min(channel.expect() for channel in self._channels) * len(self._channels)
        try:
            return await self._socket.receive(self._dialect.idle_seconds, "a message", enough)
        except DeadlineExceeded:
            raise self._dialect.idle() from None

    async def _take(self, data: bytes) -> None:
        self._frontend.metrics.bytes("websocket", len(data))
        self._digest.update(data)
        # `Finalize` may come within a sample, which then goes on after it.
        parts = self._interleaved.split(data)
        for channel, part in zip(self._channels, parts, strict=True):
            await channel.take(part)

    async def _ended_by(self, text: str) -> bool:
        """Do what a text message asks for; return whether it ends the audio."""
        asked = self._dialect.asked(text)
        if asked.finalize:
            for channel in self._channels:
                await channel.finalize()
        if asked.silence is not None:
            for channel in self._channels:
                channel.end_speech_after(asked.silence)
        await self._tell(asked.replies)
        return asked.ends

    # ── to the client ───────────────────────────────────────────────────────

    async def _tell_last(self) -> None:
        heard = Summary(
            self._engine.heard_samples / SAMPLE_RATE,
            self._digest.hexdigest(),
            self._created,
            self._engine.left_at is not None,
        )
        await self._writer.write_last(lambda: map(encode, self._dialect.last(heard)))

    async def _tell(self, found: Callable[[], list[Reply]]) -> None:
        """Send the messages that `found` makes of what was found."""
        await self._writer.write(lambda: map(encode, found()))
