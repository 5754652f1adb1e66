"""Streams audio to `/v1/audio/stream`, as it comes, at once or in real time."""

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

# A client's audio on its way: what is not sent yet, and what a server may want to have again.

_SAMPLE_BYTES = 2
_PACKET_SECONDS = 5  # of one message, at most
# A server asks for what follows the last final text: a segment, and what has not reached it yet.
# Of more than so much, what was sent first is forgotten.
_MOST_KEPT_SECONDS = 900
_MOST_UNSENT_SECONDS = 60


class SourceFailed(Exception):
    """The source of the audio raised `error`, which is the caller's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class KeptAudio:
    """Samples in order, by number from the first. Use it on one event loop.

    One task puts audio in, one sends it; positions are sample numbers.
    """

    def __init__(
        self, rate: int = SAMPLE_RATE, *, most: int | None = None, most_unsent: int | None = None
    ) -> None:
        """The audio has `rate` samples per second. About `most` samples are kept in all, and `put`
        waits while `most_unsent` were not sent."""
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
        """Append audio; waits while too much was not sent."""
        while self.end - self._sent >= self._most_unsent:
            await self._change()
        self._bytes += pcm.astype("<i2", copy=False).tobytes()
        self.forget_before(min(self.end - self._most, self._sent))
        self._changed.set()

    def finish(self) -> None:
        """There is no more audio."""
        self._ended = True
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """There is no more audio, as its source failed; who asks for what follows is told so."""
        self._failure = error
        self._changed.set()

    def forget_before(self, position: int) -> None:
        """No server will want the audio before `position` any more."""
        if position > self._start:
            del self._bytes[: (position - self._start) * _SAMPLE_BYTES]
            self._start = position

    async def packet(self, position: int) -> bytes | None:
        """Return the next samples from `position`, at most 5 s; None at the end of the audio.

        Raises ConnectionLost if they are not kept any more, and SourceFailed.
        """
        if position < self._start:
            raise ConnectionLost(
                f"the session cannot go on: its audio from sample {position} is needed again, and "
                f"only that from {self._start} is kept"
            )
        while position >= self.end and not self._ended:
            if self._failure is not None:
                raise SourceFailed(self._failure)
            await self._change()
        at = (position - self._start) * _SAMPLE_BYTES
        return bytes(self._bytes[at : at + self._packet * _SAMPLE_BYTES]) or None

    def sent(self, position: int) -> None:
        """The audio before `position` was sent."""
        self._sent = max(self._sent, position)
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


# One session over as many connections as it takes: events once each, no audio lost.

Message = dict[str, Any]
_EVENT_SECONDS = 120.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 3.0
_TIMES = ("at_ms", "start_ms", "end_ms", "audio_ms")
_LATER = (Overloaded, RateLimited, WorkerUnavailable)


class _Lost(Exception):
    """The connection ended, but not the session."""


@dataclass
class _Progress:
    """What is known of the session, over all connections. Positions are in samples.

    `resume` is the last one received. `offset` and `segments` are those of sessions that could not
    be resumed, so that another one followed, with `context`.
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
        """Where the audio that the server needs next begins."""
        return self.offset + (self.resume["from_sample"] if self.resume else 0)

    def heard(self, event: Message) -> Message | None:
        """Take an event; return it as the caller sees it, None if it is not for the caller."""
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
        """The server gives no tokens: go on in a new session."""
        self.context = left["context"]
        self.offset += left["resume_ms"] * self.rate // 1000
        self.segments += self._finals
        self._finals = 0


class ReconnectingSession:
    """A session that outlives its connections. Iterate over `events` once, on one event loop."""

    def __init__(
        self,
        urls: Sequence[str],
        start: Message,
        kept: KeptAudio,
        *,
        live: bool,
        api_key: str | None,
        resume_seconds: float,
        on_sent: Callable[[float], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """After a loss, `urls` are tried in turn for `resume_seconds`. `on_lost` gets a line."""
        self._urls = urls
        self._next_url = 0
        self._start = start
        self._kept = kept
        self._live = live
        self._api_key = api_key
        self._resume_seconds = resume_seconds
        self._on_sent = on_sent
        self._on_lost = on_lost
        self._progress = _Progress(start.get("context", ""), start["sample_rate"])
        self._give_up: float | None = None  # on the loop's clock, while the session is not served
        self._pause = 0.0

    async def events(self) -> AsyncGenerator[Message, None]:
        """Yield the session's events, each once; the first is `ready`, the last `done`.

        Raises ServerUnreachable if nobody answers, ConnectionLost if a session that had begun was
        not served again in time, SourceFailed, and another AuricleError if a server refuses or
        fails, or sends nothing for 120 s.
        """
        while True:
            try:
                async with await self._connected() as socket, aclosing(self._of(socket)) as events:
                    async for event in events:
                        yield event
                return
            except _Lost as lost:
                self._on_lost(f"{lost}; resuming")
            except _LATER as error:
                if self._give_up is None:
                    raise
                if self._now() > self._give_up:
                    raise self._beyond(error) from error
                await self._wait(error)

    async def _of(self, socket: websockets.ClientConnection) -> AsyncGenerator[Message, None]:
        """Yield one connection's events, until `done`. Raises _Lost if the session can go on."""
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
                shown = progress.heard(event)
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
        """Note that the session must go on elsewhere. Raises _Lost."""
        if self._give_up is None:
            self._give_up = self._now() + self._resume_seconds
        self._next_url += 1
        raise _Lost(f"{self._urls[(self._next_url - 1) % len(self._urls)]}: {why}")

    async def _connected(self) -> websockets.ClientConnection:
        """Connect to the next server that can be reached. The first time, each is tried once."""
        for left in reversed(range(len(self._urls))):
            url = self._urls[self._next_url % len(self._urls)]
            try:
                return await connect(
                    url,
                    self._api_key,
                    live=self._live,
                    resumes=self._progress.resume is not None,
                )
            except _LATER:
                self._next_url += 1
                if not left:
                    raise
        raise AssertionError("there is no server to connect to")

    def _beyond(self, error: AuricleError) -> ConnectionLost:
        """The session is given up, as the last attempt failed with `error`."""
        lost = ConnectionLost(
            f"the session was not resumed within {self._resume_seconds:g} s: {error}"
        )
        lost.retry_after_seconds = error.retry_after_seconds
        return lost

    async def _wait(self, error: AuricleError) -> None:
        """Wait before the next attempt: longer each time, or as long as the server asks for."""
        longer = max(_FIRST_PAUSE_SECONDS, 2 * self._pause)
        self._pause = min(longer, _LONGEST_PAUSE_SECONDS)
        said = not isinstance(error, WorkerUnavailable)  # a server that is not there says nothing
        asked = min(error.retry_after_seconds, _LONGEST_PAUSE_SECONDS) if said else 0.0
        # Clients that were lost together do not come back together.
        spread = random.uniform(0.5, 1.0)
        await asyncio.sleep(max(asked, self._pause) * spread)

    async def _send(self, socket: websockets.ClientConnection, position: int) -> None:
        """Send the audio from `position` on, and the end message."""
        while (packet := await self._kept.packet(position)) is not None:
            await socket.send(packet)
            position += len(packet) // 2
            self._kept.sent(position)
            self._on_sent(position / self._progress.rate)
        await socket.send(json.dumps({"type": "end"}))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _message(text: str) -> Message:
    """Return a message of the server. Raises AuricleError if it is none of our protocol."""
    try:
        message: Message = json.loads(text)
        kind = message["type"]
    except (ValueError, TypeError, KeyError):
        kind = None
    if not isinstance(kind, str):
        raise AuricleError("the server sent something that is no message of auricle's protocol")
    return message


async def _receive(socket: websockets.ClientConnection, sending: asyncio.Task[None] | None) -> str:
    """Return the next event. Raises TimeoutError after 120 s, but not while audio is sent.

    Raises what `sending` raises, unless the connection has ended.
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
    """Raise the error of a sender that has failed; a closed connection is the receiver's."""
    error = sending.exception()
    if error is not None and not isinstance(error, websockets.ConnectionClosed):
        raise error


Event = Message
RESUME_SECONDS = 120.0  # the default of Frontend.resume_seconds
_LIVE_PACKETS_PER_SECOND = 10  # like a microphone


async def stream_audio(
    urls: Sequence[str],
    start: Message,
    audio: AudioSource,
    *,
    live: bool,
    api_key: str | None,
    resume_seconds: float,
    on_sent: Callable[[float], None],
    on_lost: Callable[[str], None],
) -> AsyncGenerator[Message, None]:
    """Run the session that begins with the message `start`, and yield the server's messages.

    If the connection is lost or the server shuts down, the session is resumed at the next of
    `urls`, for up to `resume_seconds`: every event comes once, and no audio is lost. `on_lost` is
    called with a line that says so. `live` says that audio comes in real time; what is at hand is
    sent so then. `on_sent` is called on the event loop with the seconds of audio sent. Raises
    what `ReconnectingSession.events` does, but of SourceFailed what the source has raised.
    """
    kept = KeptAudio(audio.rate)
    session = ReconnectingSession(
        urls,
        start,
        kept,
        live=live,
        api_key=api_key,
        resume_seconds=resume_seconds,
        on_sent=on_sent,
        on_lost=on_lost,
    )
    feeding: asyncio.Task[None] | None = None
    try:
        async with aclosing(session.events()) as events:
            async for event in events:
                if feeding is None:  # the session has begun
                    feeding = asyncio.create_task(_feed(kept, audio, live=live))
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
    api_key: str | None = None,
    resume_seconds: float = RESUME_SECONDS,
    on_sent: Callable[[float], None] = lambda _seconds: None,
    on_lost: Callable[[str], None] = lambda _line: None,
) -> AsyncGenerator[Message, None]:
    """Send 16 kHz mono float32 samples and yield the server's messages; the last is `done`.

    `live` sends the audio in real time and requests partial text. See `stream_audio`. For tests
    and measurements, which look at the messages themselves.
    """
    start: Message = {
        "type": "start",
        "sample_rate": SAMPLE_RATE,
        "partials": live,
        "context": context,
    }
    if language is not None:
        start["language"] = language
    messages = stream_audio(
        [url] if isinstance(url, str) else url,
        start,
        open_source(samples, None),
        live=live,
        api_key=api_key,
        resume_seconds=resume_seconds,
        on_sent=on_sent,
        on_lost=on_lost,
    )
    async with aclosing(messages):
        async for message in messages:
            yield message


async def _feed(kept: KeptAudio, audio: AudioSource, *, live: bool) -> None:
    """Put in all audio; what is at hand in real time with `live`, however the connections are."""
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
                        # In real time, a packet is complete when its last sample has been spoken.
                        spoken = began + position / audio.rate
                        await asyncio.sleep(max(0.0, spoken - loop.time()))
                    await kept.put(part)
    except asyncio.CancelledError:
        # The session is over; or the source was cancelled, and the session would wait for it.
        kept.fail(RuntimeError("the source of the audio was cancelled"))
        raise
    except Exception as error:  # it is the caller's, who hears of it where the events are read
        kept.fail(error)
    else:
        kept.finish()
