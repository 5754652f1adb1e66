"""Streams audio to `/v1/audio/stream`, in sessions that survive lost connections."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import websockets

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.client.connection import connect
from auricle.client.errors import ConnectionLost, reported
from auricle.client.sources import AudioSource, open_source
from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError, Overloaded, RateLimited, WorkerUnavailable

_SAMPLE_BYTES = 2
_PACKET_SECONDS = 5  # of one message, at most
# A server may request the audio after the last final text: a segment, and unreceived audio. Beyond
# this bound the oldest sent audio is dropped.
_MOST_KEPT_SECONDS = 900
_MOST_UNSENT_SECONDS = 60


class SourceFailed(Exception):
    """The source of the audio raised `error`, which is the caller's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class KeptAudio:
    """Audio that was not sent yet or that a server may request again. Use it on one event loop.

    One task puts audio in, one sends it; positions are sample numbers from the first.
    """

    def __init__(
        self, rate: int = SAMPLE_RATE, *, most: int | None = None, most_unsent: int | None = None
    ) -> None:
        """`rate` is in samples per second. It keeps about `most` samples, and `put` waits while
        `most_unsent` samples are unsent."""
        self._packet = _PACKET_SECONDS * rate
        self._most = _MOST_KEPT_SECONDS * rate if most is None else most
        self._most_unsent = _MOST_UNSENT_SECONDS * rate if most_unsent is None else most_unsent
        self._bytes = bytearray()
        self._start = 0  # position of the first sample kept
        self._sent = 0  # position up to which audio was sent on any connection
        self._ended = False
        self._failure: Exception | None = None  # of the source
        self._changed = asyncio.Event()

    @property
    def end(self) -> int:
        """The position after the last sample."""
        return self._start + len(self._bytes) // _SAMPLE_BYTES

    async def put(self, pcm: Int16) -> None:
        """Append audio; wait while too much is unsent."""
        while self.end - self._sent >= self._most_unsent:
            await self._change()
        self._bytes += pcm.astype("<i2", copy=False).tobytes()
        self.forget_before(min(self.end - self._most, self._sent))
        self._changed.set()

    def finish(self) -> None:
        """Mark the end of the audio."""
        self._ended = True
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """Mark the failure of the source; later calls of `packet` raise SourceFailed."""
        self._failure = error
        self._changed.set()

    def forget_before(self, position: int) -> None:
        """Drop the audio before `position`, which no server will request."""
        if position > self._start:
            del self._bytes[: (position - self._start) * _SAMPLE_BYTES]
            self._start = position

    async def packet(self, position: int) -> bytes | None:
        """Return the next samples from `position`, at most 5 s; None at the end of the audio.

        Raises ConnectionLost if they were dropped, and SourceFailed.
        """
        if position < self._start:
            raise ConnectionLost(
                f"the session cannot continue: the server needs its audio from sample {position}, "
                f"but only samples from {self._start} are kept"
            )
        while position >= self.end and not self._ended:
            if self._failure is not None:
                raise SourceFailed(self._failure)
            await self._change()
        at = (position - self._start) * _SAMPLE_BYTES
        return bytes(self._bytes[at : at + self._packet * _SAMPLE_BYTES]) or None

    def sent(self, position: int) -> None:
        """Record that the audio before `position` was sent."""
        self._sent = max(self._sent, position)
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


Message = dict[str, Any]
_EVENT_SECONDS = 120.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 3.0
_TIMES = ("at_ms", "start_ms", "end_ms", "audio_ms")
_LATER = (Overloaded, RateLimited, WorkerUnavailable)


class _Lost(Exception):
    """The connection ended; the session can be resumed."""


@dataclass
class _Progress:
    """The state of a session over all connections. Positions are in samples.

    `resume` is the last token received. Without tokens a new session follows a lost one, with
    `context`; `offset` and `segments` count the earlier sessions.
    """

    context: str
    rate: int = SAMPLE_RATE
    resume: Message | None = None
    offset: int = 0
    segments: int = 0
    texts: list[str] = field(default_factory=list)
    connections: int = 0
    _finals: int = 0

    @property
    def position(self) -> int:
        """The position of the next audio for the server."""
        return self.offset + (self.resume["from_sample"] if self.resume else 0)

    def receive(self, event: Message) -> Message | None:
        """Update the state; return the caller's view of the event, None if it is internal."""
        self.resume = event.pop("resume", self.resume)
        kind = event["type"]
        if kind == "ready":
            self.connections += 1
            return event if self.connections == 1 else None
        if kind == "going_away" and self.resume is None:
            self._follow(event)
        if kind in ("checkpoint", "going_away"):
            return None
        return self._shown(event)

    def _shown(self, event: Message) -> Message:
        """Return the event with times and segment numbers counted from the first session."""
        for name in _TIMES:
            if name in event:
                event[name] += self.offset * 1000 // self.rate
        if "segment" in event:
            event["segment"] += self.segments
        if event["type"] == "final":
            self._finals += 1
            if event["text"]:
                self.texts.append(event["text"])
        if event["type"] == "done":
            event["text"] = " ".join(self.texts)
        return event

    def _follow(self, left: Message) -> None:
        """Continue in a new session, as the server sends no tokens."""
        self.context = left["context"]
        self.offset += left["resume_ms"] * self.rate // 1000
        self.segments += self._finals
        self._finals = 0


RESUME_SECONDS = 120.0  # the default of Frontend.resume_seconds


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The servers of a session, and its behaviour after a lost connection.

    `urls` are tried in turn, after a loss for `resume_seconds`; `on_lost` then receives a line.
    `live`: audio arrives in real time; audio at hand is sent so. `on_sent` is called on the event
    loop with the seconds of audio sent.
    """

    urls: Sequence[str]
    live: bool
    api_key: str | None = None
    resume_seconds: float = RESUME_SECONDS
    on_sent: Callable[[float], None] = lambda _seconds: None
    on_lost: Callable[[str], None] = lambda _line: None


class ReconnectingSession:
    """A session over several connections. Iterate over `events` once, on one event loop."""

    def __init__(self, start: Message, kept: KeptAudio, connection: ConnectionOptions) -> None:
        self._urls = connection.urls
        self._next_url = 0
        self._start = start
        self._kept = kept
        self._connection = connection
        self._progress = _Progress(start.get("context", ""), start["sample_rate"])
        self._give_up: float | None = None  # on the loop's clock, while the session is not served
        self._pause = 0.0

    async def events(self) -> AsyncGenerator[Message, None]:
        """Yield the session's events, each once; the first is `ready`, the last `done`.

        Raises ServerUnreachable if no server answers, ConnectionLost if the session was not resumed
        in time, SourceFailed, and another AuricleError if a server rejects the session, fails, or
        sends nothing for 120 s.
        """
        while True:
            try:
                async with await self._connected() as socket, aclosing(self._of(socket)) as events:
                    async for event in events:
                        yield event
                return
            except _Lost as lost:
                self._connection.on_lost(f"{lost}; resuming")
            except _LATER as error:
                if self._give_up is None:
                    raise
                if self._now() > self._give_up:
                    raise self._beyond(error) from error
                await self._wait(error)

    async def _of(self, socket: websockets.ClientConnection) -> AsyncGenerator[Message, None]:
        """Yield one connection's events, until `done`. Raises _Lost if the session can continue."""
        progress = self._progress
        sending: asyncio.Task[None] | None = None
        try:
            await socket.send(json.dumps(self._first()))
            while True:
                event = _message(await _receive(socket, sending))
                kind = event["type"]
                if kind == "error":
                    after = event.get("retry_after_seconds", 0.0)
                    raise reported(event, event["message"], after)
                shown = progress.receive(event)
                if kind == "ready":
                    sending = asyncio.create_task(self._send(socket, progress.position))
                else:
                    self._give_up, self._pause = None, 0.0
                self._kept.forget_before(progress.position)
                if kind == "going_away":
                    self._lost("the server is shutting down")
                if shown is not None:
                    yield shown
                if kind == "done":
                    return
        except websockets.ConnectionClosed as error:
            if progress.resume is None:
                raise ConnectionLost(f"the server closed the connection: {error}") from None
            self._lost(f"the connection was lost ({error})")
        except TimeoutError:
            raise AuricleError(f"the server sent nothing for {_EVENT_SECONDS:g} s") from None
        finally:
            if sending is not None:
                await cancelled([sending])

    def _first(self) -> Message:
        start = self._start | {"context": self._progress.context}
        resume = self._progress.resume
        return start if resume is None else start | {"resume": resume}

    def _lost(self, why: str) -> None:
        """Select the next server and raise _Lost."""
        if self._give_up is None:
            self._give_up = self._now() + self._connection.resume_seconds
        self._next_url += 1
        raise _Lost(f"{self._urls[(self._next_url - 1) % len(self._urls)]}: {why}")

    async def _connected(self) -> websockets.ClientConnection:
        """Connect to the next reachable server; try each once."""
        for left in reversed(range(len(self._urls))):
            url = self._urls[self._next_url % len(self._urls)]
            try:
                return await connect(
                    url,
                    self._connection.api_key,
                    live=self._connection.live,
                    resumes=self._progress.resume is not None,
                )
            except _LATER:
                self._next_url += 1
                if not left:
                    raise
        raise AssertionError("urls is empty")

    def _beyond(self, error: AuricleError) -> ConnectionLost:
        """Return the error of a session that is given up after `error`."""
        lost = ConnectionLost(
            f"the session was not resumed within {self._connection.resume_seconds:g} s: {error}"
        )
        lost.retry_after_seconds = error.retry_after_seconds
        return lost

    async def _wait(self, error: AuricleError) -> None:
        """Wait before the next attempt: longer each time, or the time that the server requests."""
        longer = max(_FIRST_PAUSE_SECONDS, 2 * self._pause)
        self._pause = min(longer, _LONGEST_PAUSE_SECONDS)
        reachable = not isinstance(error, WorkerUnavailable)
        requested = min(error.retry_after_seconds, _LONGEST_PAUSE_SECONDS) if reachable else 0.0
        # Clients that lost their connections together do not return together.
        spread = random.uniform(0.5, 1.0)
        await asyncio.sleep(max(requested, self._pause) * spread)

    async def _send(self, socket: websockets.ClientConnection, position: int) -> None:
        """Send the audio from `position` on, and the end message."""
        while (packet := await self._kept.packet(position)) is not None:
            await socket.send(packet)
            position += len(packet) // 2
            self._kept.sent(position)
            self._connection.on_sent(position / self._progress.rate)
        await socket.send(json.dumps({"type": "end"}))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _message(text: str) -> Message:
    """Decode a message of the server. Raises AuricleError if it is invalid."""
    try:
        message: Message = json.loads(text)
        kind = message["type"]
    except (ValueError, TypeError, KeyError):
        kind = None
    if not isinstance(kind, str):
        raise AuricleError("the server sent an invalid message: not of auricle's protocol")
    return message


async def _receive(socket: websockets.ClientConnection, sending: asyncio.Task[None] | None) -> str:
    """Return the next event. Raises TimeoutError after 120 s, but not while audio is sent.

    Raises the error of `sending`, unless the connection has ended.
    """
    receiving = asyncio.ensure_future(socket.recv())
    try:
        while True:
            waiting: set[asyncio.Future[Any]] = {receiving}
            if sending is not None and not sending.done():
                waiting.add(sending)
            done, _ = await asyncio.wait(
                waiting, timeout=_EVENT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if receiving in done:
                return str(receiving.result())
            if sending is not None and sending.done():
                _check(sending)
            if not done and (sending is None or sending.done()):
                raise TimeoutError
    finally:
        await cancelled([receiving])


def _check(sending: asyncio.Task[None]) -> None:
    """Raise the error of a failed sender; the receiver reports a closed connection."""
    error = sending.exception()
    if error is not None and not isinstance(error, websockets.ConnectionClosed):
        raise error


Event = Message
_LIVE_PACKETS_PER_SECOND = 10  # like a microphone


async def stream_audio(
    start: Message, audio: AudioSource, connection: ConnectionOptions
) -> AsyncGenerator[Message, None]:
    """Run the session that begins with the message `start`, and yield the server's messages.

    If the connection is lost or the server shuts down, the session is resumed at the next server:
    every event comes once, and no audio is lost. Raises as `ReconnectingSession.events`, and the
    source's own error instead of SourceFailed.
    """
    kept = KeptAudio(audio.rate)
    session = ReconnectingSession(start, kept, connection)
    feeding: asyncio.Task[None] | None = None
    try:
        async with aclosing(session.events()) as events:
            async for event in events:
                if feeding is None:  # the session has begun
                    feeding = asyncio.create_task(_feed(kept, audio, live=connection.live))
                yield event
    except SourceFailed as failed:
        raise failed.error from None
    finally:
        if feeding is not None:
            await cancelled([feeding])


async def stream_file(
    url: str | Sequence[str],
    samples: npt.NDArray[np.float32],
    *,
    live: bool,
    language: str | None = None,
    context: str = "",
    **connection: Any,
) -> AsyncGenerator[Message, None]:
    """Send 16 kHz mono float32 samples and yield the server's messages; the last is `done`.

    `live` sends the audio in real time and requests partial text; `connection` has fields of
    ConnectionOptions. For tests and measurements, which examine the messages themselves.
    """
    start: Message = {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "partials": live,
        "context": context,
    }
    if language is not None:
        start["language"] = language
    urls = [url] if isinstance(url, str) else url
    options = ConnectionOptions(urls=urls, live=live, **connection)
    async with aclosing(stream_audio(start, open_source(samples, None), options)) as messages:
        async for message in messages:
            yield message


async def _feed(kept: KeptAudio, audio: AudioSource, *, live: bool) -> None:
    """Put in all audio; with `live`, audio at hand in real time, independent of connections."""
    loop = asyncio.get_running_loop()
    paced = live and audio.at_hand
    most = audio.rate // _LIVE_PACKETS_PER_SECOND if paced else audio.rate * _PACKET_SECONDS
    began, position = loop.time(), 0
    try:
        async with aclosing(audio.packets) as packets:
            async for packet in packets:
                for at in range(0, len(packet), most):
                    part = packet[at : at + most]
                    position += len(part)
                    if paced:
                        # In real time, a packet is complete after its last sample.
                        spoken = began + position / audio.rate
                        await asyncio.sleep(max(0.0, spoken - loop.time()))
                    await kept.put(part)
    except asyncio.CancelledError:
        # The session is over, or the source was cancelled while the session waits for it.
        kept.fail(RuntimeError("the source of the audio was cancelled"))
        raise
    except Exception as error:  # the caller's own; raised where the events are read
        kept.fail(error)
    else:
        kept.finish()
