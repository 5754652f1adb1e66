"""Publishes every committed and final text to NATS JetStream.

Delivery is at least once: a message is queued until the stream has acknowledged it, however
long NATS is away, and its id lets the stream discard duplicates. Sessions never wait for NATS:
when the queue is full, the oldest messages are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from auricle.frontend.line.link import LinkObserver
from auricle.frontend.observers.outage import Outage
from auricle.frontend.observers.transcript_bus import (
    Spoken,
    TranscriptListener,
    TranscriptMessage,
)
from auricle.frontend.observers.transcript_queue import QueuedMessage, TranscriptQueue
from auricle.frontend.observers.transcript_stream import Refused, TranscriptStream, connected
from auricle.messages.diagnosis import BusState

log = logging.getLogger(__name__)
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
        waiting = Gauge(f"{name}_waiting", "not on the bus yet", registry=registry)
        waiting.set_function(lambda: len(self._queue))
        up = Gauge("auricle_frontend_transcript_bus_up", "1 if NATS takes text", registry=registry)
        up.set_function(lambda: float(self._up))

    def listener(self, spoken: Spoken) -> LinkObserver:
        """See `TranscriptBus`."""
        return TranscriptListener(spoken, self._put)

    def state(self) -> BusState:
        """See `TranscriptBus`."""
        return BusState(self._up, len(self._queue))

    def _put(self, message: TranscriptMessage) -> None:
        # The same text has the same id, no matter which processor it came from.
        identity = f"{message.session}/{message.part}/{message.segment}/{message.type}"
        if message.type in ("translated", "translation"):
            identity += f"/{message.language}"
        if message.type in ("committed", "translated"):
            identity += f"/{len(message.text)}"
        subject = f"{self._prefix}.{message.tenant}.{message.session}"
        data = msgspec.json.encode(message)
        if not self._queue.put(QueuedMessage(subject, identity, data)):
            self._dropped.inc()
            self._outage.dropped()
        self._awake.set()

    async def run(self) -> None:
        """Publish until cancelled, then try for up to 3 s to publish what is still queued.

        Every failure is retried without end; an outage is logged at its begin and at its end.
        """
        try:
            await self._keep_publishing(until_empty=False)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._keep_publishing(until_empty=True)
            if len(self._queue):
                log.warning("%d transcripts are lost: NATS did not take them", len(self._queue))

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
                self._unsettled = message
                await stream.publish(message)
        except Refused as error:
            # Tried again, it would hold up all others for ever.
            log.error("a transcript is dropped: %s", error)
            self._dropped.inc()
        else:
            self._published.inc()
        self._queue.done()
