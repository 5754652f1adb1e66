"""Publishes every committed and final text to NATS JetStream.

Delivery is at least once: a message is queued until the stream has acknowledged it, however
long NATS is away, and its id lets the stream discard duplicates. Sessions never wait for NATS:
when the queue is full, the oldest messages are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from nats.aio.client import Client
from nats.errors import BadSubjectError, ConnectionClosedError, MaxPayloadError
from nats.errors import Error as NatsError
from nats.js.api import Header, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError
from prometheus_client import CollectorRegistry, Counter, Gauge

from auricle.core.aio import run_until, with_timeout
from auricle.core.errors import AuricleError
from auricle.frontend.exporters.transcripts import (
    TranscriptListener,
    TranscriptMessage,
    TranscriptSource,
)
from auricle.frontend.link.processor_link import LinkObserver
from auricle.protocol.diagnosis import BusState

log = logging.getLogger(__name__)

_EXPECTED = NatsError | AuricleError | OSError | TimeoutError


class Outage:
    """Logs the begin and end of an outage of NATS, not each attempt. Use it on one event loop."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._dropped = 0

    def failed(self, error: Exception, waiting: int) -> None:
        """An attempt to publish has failed; `waiting` messages are queued."""
        if self._since is not None:
            return
        self._since = asyncio.get_running_loop().time()
        log.warning(
            "NATS is unavailable (%s); transcripts are queued until it is there: %d",
            str(error) or type(error).__name__,
            waiting,
            exc_info=None if isinstance(error, _EXPECTED) else error,
        )

    def dropped(self) -> None:
        self._dropped += 1
        if self._dropped == 1:
            log.warning("too many transcripts wait for NATS: the oldest are dropped")

    def over(self) -> None:
        if self._since is not None:
            seconds = asyncio.get_running_loop().time() - self._since
            text = "NATS is there again after %.0f s: transcripts are published, %d were dropped"
            log.info(text, seconds, self._dropped)
        self._since, self._dropped = None, 0


# The transcripts that wait for NATS. No I/O.


@dataclass(frozen=True)
class QueuedMessage:
    """One message: its subject, the id by which the stream discards duplicates, its JSON."""

    subject: str
    identity: str
    data: bytes


class TranscriptQueue:
    """First in, first out. At most `limit` messages wait, in addition to the one being sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[QueuedMessage] = deque()
        self._sending: QueuedMessage | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (self._sending is not None)

    def put(self, message: QueuedMessage) -> bool:
        """Append a message. If the queue is full, drop the oldest one and return False.

        The one being sent is not dropped: it may be in the stream already.
        """
        full = len(self._waiting) >= self._limit
        if full:
            self._waiting.popleft()
        self._waiting.append(message)
        return not full

    def first(self) -> QueuedMessage | None:
        """Return the message to send: the same one until `done` is called."""
        if self._sending is None and self._waiting:
            self._sending = self._waiting.popleft()
        return self._sending

    def done(self) -> None:
        """The first message is in the stream, or can never be."""
        self._sending = None


# One connection to NATS, and the JetStream stream that holds the transcripts.

STREAM = "auricle_transcripts"
_CONNECT_SECONDS = 5.0
_AGAIN_SECONDS = 0.5
_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
# How long the stream remembers message ids.
_DUPLICATE_SECONDS = 120.0
_TOO_LARGE = 10054  # JetStream's err_code for a message larger than the stream permits

T = TypeVar("T")


class Refused(AuricleError):
    """NATS takes others, but will never take this message."""


@contextlib.asynccontextmanager
async def connected(
    servers: Sequence[str], on_end: Callable[[], None]
) -> AsyncGenerator[TranscriptStream, None]:
    """Connect to one of the servers; `on_end` is called when the connection ends.

    A connection that ended is not made again: the library's own reconnection would hide the
    outage, and send its buffer again. Raises DeadlineExceeded or an error of the library.
    """
    client = Client()
    ended = asyncio.Event()

    async def end() -> None:
        ended.set()
        on_end()

    try:
        connecting = client.connect(
            list(servers),
            allow_reconnect=False,
            reconnect_time_wait=_AGAIN_SECONDS,
            connect_timeout=2,
            error_cb=_ignore,
            closed_cb=end,
        )
        await with_timeout(_CONNECT_SECONDS, connecting, "connecting to NATS")
        yield TranscriptStream(client, ended)
    finally:
        await _close(client)


class TranscriptStream:
    """The stream over one connection. All waits have a deadline, and end with the connection.

    Methods pass on the client library's exceptions, which are more than it documents.
    """

    def __init__(self, client: Client, ended: asyncio.Event) -> None:
        self._stream = client.jetstream(timeout=_ANSWER_SECONDS)
        self._ended = ended

    def check(self) -> None:
        """Raise ConnectionClosedError if the connection has ended."""
        if self._ended.is_set():
            raise ConnectionClosedError

    async def make(self, subjects: str, keep_seconds: float) -> None:
        """Create the stream. An existing one is not changed: an operator may have configured it."""
        config = StreamConfig(
            name=STREAM,
            subjects=[subjects],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=keep_seconds,
            duplicate_window=min(_DUPLICATE_SECONDS, keep_seconds),
        )
        try:
            await self._answer(self._stream.stream_info(STREAM))
        except NotFoundError:
            await self._answer(self._stream.add_stream(config))

    async def publish(self, message: QueuedMessage) -> bool:
        """Return once the message is stored: False if the stream had one with its id before.

        Raises Refused if it never can be stored.
        """
        headers = {Header.MSG_ID: message.identity}
        try:
            sent = self._stream.publish(message.subject, message.data, headers=headers)
            return not (await self._answer(sent)).duplicate
        except (MaxPayloadError, BadSubjectError, APIError) as error:
            if isinstance(error, APIError) and error.err_code != _TOO_LARGE:
                raise
            raise Refused(f"NATS takes no message of {len(message.data)} bytes: {error}") from None

    async def holds(self, message: QueuedMessage) -> bool:
        """Whether the last message of its session in the stream is this one.

        After a long outage the stream has forgotten the ids of its messages. But as they are
        sent one by one, only the last one can be there without its acknowledgement.
        """
        try:
            last = await self._answer(self._stream.get_last_msg(STREAM, message.subject))
        except NotFoundError:
            return False
        return bool((last.headers or {}).get(Header.MSG_ID) == message.identity)

    async def _answer(self, call: Coroutine[Any, Any, T]) -> T:
        answer = await with_timeout(
            _ANSWER_SECONDS, run_until(self._ended, call), "an answer of NATS"
        )
        if answer is None:
            raise ConnectionClosedError
        return answer


async def _close(client: Client) -> None:
    """Close the client, whatever state it is in; a failure to do so is of no interest."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()


async def _ignore(_error: Exception) -> None:
    """Ignore the library's report of an error: whoever waits for an answer gets it too."""


_RETRY_SECONDS = 0.5
_FLUSH_SECONDS = 3.0


class NatsBus:
    """Queues messages, at most `max_queued`, and publishes them in `run`.

    Listeners and `run` must be used on one event loop; the frontend owns the task of `run`.
    """

    def __init__(
        self,
        servers: str,
        namespace: str,
        *,
        max_queued: int,
        keep_hours: float,
        registry: CollectorRegistry,
    ) -> None:
        self._servers = [server.strip() for server in servers.split(",")]
        self._prefix = f"{namespace}.transcript"
        self._keep_seconds = keep_hours * 3600.0
        self._queue = TranscriptQueue(max_queued)
        # Set by a new message, and by the end of the connection.
        self._awake = asyncio.Event()
        self._outage = Outage()
        self._up = False
        # Sent, but perhaps not stored: its acknowledgement has not come.
        self._unsettled: QueuedMessage | None = None
        name = "auricle_frontend_transcript_messages"
        self._published = Counter(f"{name}_published", "text on the bus", registry=registry)
        self._dropped = Counter(f"{name}_dropped", "for want of NATS", registry=registry)
        self._duplicate = Counter(
            f"{name}_duplicate", "discarded: their id was in the stream", registry=registry
        )
        waiting = Gauge(f"{name}_waiting", "not on the bus yet", registry=registry)
        waiting.set_function(lambda: len(self._queue))
        up = Gauge("auricle_frontend_transcript_bus_up", "1 if NATS takes text", registry=registry)
        up.set_function(lambda: float(self._up))

    def listener(self, spoken: TranscriptSource) -> LinkObserver:
        return TranscriptListener(spoken, self._put)

    def state(self) -> BusState:
        return BusState(self._up, len(self._queue))

    def _put(self, message: TranscriptMessage) -> None:
        # The same text has the same id, no matter which processor it came from. No client can
        # choose the whole source: otherwise it could have another one's text discarded.
        source = [message.tenant, message.session]
        if message.server_session:
            source.append(message.server_session)
        identity = f"{'/'.join(source)}/{message.part}/{message.segment}/{message.type}"
        if message.type in ("translated", "translation"):
            identity += f"/{message.language}"
        if message.type in ("committed", "translated"):
            identity += f"/{len(message.text)}"
        subject = ".".join([self._prefix, *source])
        data = msgspec.json.encode(message)
        if not self._queue.put(QueuedMessage(subject, identity, data)):
            self._dropped.inc()
            self._outage.dropped()
        self._awake.set()

    async def run(self) -> None:
        """Publish until cancelled, then try for up to 3 s to publish the rest of the queue.

        Every failure is retried without end; an outage is logged at its begin and at its end.
        """
        try:
            await self._keep_publishing(until_empty=False)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._keep_publishing(until_empty=True)
            if len(self._queue):
                log.warning("Dropped %d transcripts: NATS publish failed", len(self._queue))

    async def _keep_publishing(self, *, until_empty: bool) -> None:
        while len(self._queue) or not until_empty:
            try:
                async with connected(self._servers, self._awake.set) as stream:
                    await stream.make(f"{self._prefix}.>", self._keep_seconds)
                    await self._publish(stream, until_empty=until_empty)
            # The client library fails in more ways than it documents (under uvloop, with a
            # RuntimeError of the event loop). None of them may end the frontend.
            except Exception as error:
                self._up = False
                self._outage.failed(error, len(self._queue))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _publish(self, stream: TranscriptStream, *, until_empty: bool) -> None:
        """Publish in order; a message leaves the queue when the stream has acknowledged it."""
        while True:
            self._awake.clear()
            while (message := self._queue.first()) is not None:
                await self._send(stream, message)
            self._outage.over()
            self._up = True
            if until_empty:
                return
            await self._awake.wait()
            stream.check()

    async def _send(self, stream: TranscriptStream, message: QueuedMessage) -> None:
        """Publish the queue's first message, and take it off the queue."""
        try:
            if self._unsettled is not message or not await stream.holds(message):
                new, self._unsettled = self._unsettled is not message, message
                if not await stream.publish(message) and new:
                    log.info("the stream has this transcript already: %s", message.identity)
                    self._duplicate.inc()
        except Refused as error:
            # Tried again, it would hold up all others for ever.
            log.error("a transcript is dropped: %s", error)
            self._dropped.inc()
        else:
            self._published.inc()
        self._queue.done()
