"""One session of a WebSocket protocol, whose messages a `ProtocolAdapter` makes."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import TimeSlice
from auricle.core.errors import AuricleError, DeadlineExceeded
from auricle.frontend.audio.chunks import AudioEvent, Deinterleaver
from auricle.frontend.audio.turn_detection import Silence
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.words import Text
from auricle.frontend.session.adapter import AudioOptions, Reply, encode
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.message_writer import MessageWriter
from auricle.frontend.transport.websockets import ClientSocket
from auricle.protocol.sessions import SegmentFinal, SegmentPartial


class EventSerializer(Protocol):
    """Makes the messages on one channel's speech and text. Calls must not overlap.

    Positions are session samples (16 kHz).
    """

    def on_endpointing(self, events: Sequence[AudioEvent], until: int) -> list[Reply]:
        """Endpointing has found `events` up to sample `until`, which counts silence without audio.

        The processor gets the chunks only afterwards, because their text may follow at once.
        """
        ...

    @property
    def silence_until(self) -> int | None:
        """The sample up to which silence must last for the next message; None if there is none."""
        ...

    def on_finalized(self, at: int) -> list[Reply]:
        """The client wants the text of all audio up to `at`, where its speech was ended."""
        ...

    def on_partial(self, event: SegmentPartial) -> list[Reply]:
        """The open segment has text that may change."""
        ...

    def on_final(self, event: SegmentFinal) -> list[Reply]:
        """A segment has its final text."""
        ...


@dataclass(frozen=True)
class ClientCommand:
    """The effect of a client's text message; `replies` makes its answer.

    `finalize`: all audio so far becomes final. `ends`: the audio has ended. `silence`: speech ends
    after such a silence from now on.
    """

    replies: Callable[[], list[Reply]] = list
    finalize: bool = False
    ends: bool = False
    silence: Silence | None = None


@dataclass(frozen=True)
class Summary:
    """A whole session: `seconds` of audio, whose bytes have that SHA-256.

    `left`: draining has ended the session, and the client may continue elsewhere. `failed`: the
    client's error follows.
    """

    seconds: float
    sha256: str
    created: datetime
    left: bool
    failed: bool


class ProtocolAdapter(Protocol):
    """Translates the messages of one protocol. No I/O."""

    @property
    def idle_seconds(self) -> float:
        """The longest time without a message from the client."""
        ...

    @property
    def empty_ends(self) -> bool:
        """Whether an empty binary message ends the audio."""
        ...

    def idle_error(self) -> AuricleError:
        """Return the error of a client that sent nothing for longer."""
        ...

    def serializer(self, channel: int) -> EventSerializer:
        """Return the serializer of one channel; it is called for each, in order."""
        ...

    def first_messages(self) -> list[Reply]:
        """Return the messages that a session begins with."""
        ...

    def command(self, text: str) -> ClientCommand:
        """Return the effect of a text message. Raises ProtocolError if it ends the session."""
        ...

    def last_messages(self, summary: Summary) -> list[Reply]:
        """Return the last messages of a session."""
        ...


# Sends the messages that a function makes; all channels share one order.
Send = Callable[[Callable[[], list[Reply]]], Awaitable[None]]


class SerializedChannel(TextChannel):
    """One channel of a connection, whose speech and text become messages."""

    def __init__(
        self,
        frontend: Frontend,
        socket: ClientSocket,
        options: AudioOptions,
        number: int,
        serializer: EventSerializer,
        send: Send,
    ) -> None:
        """`number` counts from 0, among the `options.channels` of the connection."""
        self._silence = options.silence
        self._next_silence: Silence | None = None  # in effect after the open segment
        self._serializer = serializer
        self._send = send
        named = replace(
            options,
            name=socket.sessions[number],
            group=socket.session,
            part=str(number) if options.channels > 1 else "",
        )
        super().__init__(frontend, socket, named)

    async def take(self, data: bytes) -> None:
        """Process whole samples; see `AudioIntake.take`."""
        if self._next_silence is not None and self.resting_at is not None:
            self._silence, self._next_silence = self._next_silence, None
            await self.listen_anew(self._silence)
        await super().take(data)

    def end_speech_after(self, silence: Silence) -> None:
        """Let speech end after such a silence, from the next segment on."""
        self._next_silence = silence

    async def finalize(self) -> None:
        """End the speech so far, and listen anew to what follows."""
        at = await self.listen_anew(self._silence)
        await self._send(lambda: self._serializer.on_finalized(at))

    async def on_endpointing(self, events: Sequence[AudioEvent]) -> None:
        until = self.total_samples + self.ingest.gap
        await self._send(lambda: self._serializer.on_endpointing(events, until))

    @property
    def stall_needed(self) -> int | None:
        """As without messages; these may need a longer silence than speech."""
        needed, until = super().stall_needed, self._serializer.silence_until
        if until is not None:
            more = until - self.total_samples - self.ingest.closed_gap
            needed = more if needed is None else min(needed, more)
        return needed

    async def emit(self, event: Text) -> None:
        if isinstance(event, SegmentFinal):
            await self._send(partial(self._serializer.on_final, event))
        else:
            with self._frontend.tracer.span("send", self._live_session.trace):
                await self._send(partial(self._serializer.on_partial, event))


class WebSocketSession:
    """The session of one connection."""

    def __init__(
        self,
        frontend: Frontend,
        socket: ClientSocket,
        options: AudioOptions,
        adapter: ProtocolAdapter,
    ) -> None:
        self._frontend = frontend
        self._socket = socket
        self._adapter = adapter
        self._writer = MessageWriter(socket)
        self._channels = [
            SerializedChannel(
                frontend, socket, options, number, adapter.serializer(number), self._send
            )
            for number in range(options.channels)
        ]
        self._engine = SessionEngine(frontend, *self._channels)
        sample_bytes = 2 if options.encoding == "pcm_s16le" else 1
        self._interleaved = Deinterleaver(options.channels, sample_bytes)
        self._digest = hashlib.sha256()
        self._created = datetime.now(UTC)
        self._time_slice = TimeSlice()

    async def run(self) -> None:
        """Serve the session until done.

        Raises AuricleError if it fails, ClientDisconnected if the client leaves.
        """
        await self._send(self._adapter.first_messages)
        with self._writer.may_leave():
            await self._engine.run(self._read(), last=self._send_last)

    # ── from the client ─────────────────────────────────────────────────────

    async def _read(self) -> None:
        while (message := await self._engine.receive(self._next)) is not None:
            text, data = message
            await self._time_slice.yield_if_expired()
            if text is None:
                await self._take(data)
                ended = self._adapter.empty_ends and not data
            else:
                ended = await self._execute(self._adapter.command(text))
            if ended:
                await self._engine.end()
                break
        else:
            self._socket.end_early(await self._engine.leave())
        await self._socket.read_up()

    async def _next(self) -> tuple[str | None, bytes]:
        enough = min(channel.missing_bytes for channel in self._channels) * len(self._channels)
        try:
            return await self._socket.receive(self._adapter.idle_seconds, "a message", enough)
        except DeadlineExceeded:
            raise self._adapter.idle_error() from None

    async def _take(self, data: bytes) -> None:
        self._frontend.metrics.bytes("websocket", len(data))
        self._digest.update(data)
        # `Finalize` may come within a sample, whose rest then follows.
        parts = self._interleaved.split(data)
        for channel, part in zip(self._channels, parts, strict=True):
            await channel.take(part)

    async def _execute(self, command: ClientCommand) -> bool:
        """Execute a command; return whether it ends the audio."""
        for channel in self._channels:
            if command.finalize:
                await channel.finalize()
            if command.silence is not None:
                channel.end_speech_after(command.silence)
        await self._send(command.replies)
        return command.ends

    # ── to the client ───────────────────────────────────────────────────────

    async def _send(self, replies: Callable[[], list[Reply]]) -> None:
        await self._writer.write(lambda: map(encode, replies()))

    async def _send_last(self) -> None:
        summary = Summary(
            self._engine.total_samples / SAMPLE_RATE,
            self._digest.hexdigest(),
            self._created,
            self._engine.left_at is not None,
            self._engine.failure is not None,
        )
        await self._writer.write_last(lambda: map(encode, self._adapter.last_messages(summary)))
