"""Every committed and final text, also published to NATS JetStream.

Recorders, translators and agents subscribe there without touching a client's socket.
At least once: a message is kept until the stream has it, across restarts of the NATS
server; its id lets the stream drop what it has already. Publishing never waits: what
NATS cannot take for long is dropped, oldest first, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import nats
from nats.errors import Error as NatsError
from nats.js.api import RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError
from prometheus_client import CollectorRegistry, Counter, Gauge

from auricle.frontend.endpointing import FeaturePiece, Piece
from auricle.frontend.link import LinkObserver
from auricle.messages import Final, Partial, SessionEvent

log = logging.getLogger(__name__)
STREAM = "auricle_transcripts"
_PUBLISH_SECONDS = 5.0
_RETRY_SECONDS = 0.5
_FLUSH_SECONDS = 3.0
# The stream's own memory of message ids; a resend after longer than that may be seen twice.
_DUPLICATE_SECONDS = 120.0


@dataclass(frozen=True)
class Spoken:
    """Whose text it is. `part` tells sessions apart that one client's session is made of."""

    tenant: str
    session: str
    part: str = ""


class TranscriptMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """`committed`: all text of the segment that will not change; `final`: the whole of it.

    Times are milliseconds of the session's audio.
    """

    type: str
    tenant: str
    session: str
    segment: int
    text: str
    language: str
    audio_ms: int
    part: str = ""
    start_ms: int | None = None


class TranscriptBus(Protocol):
    """Takes events as they happen; never blocks, never raises."""

    def listener(self, spoken: Spoken) -> LinkObserver:
        """What is told of every event of one session."""
        ...


class NoBus:
    """Where NATS is not configured."""

    def listener(self, spoken: Spoken) -> LinkObserver:
        """Nobody listens."""
        return _Listener(spoken, lambda _message: None)


class _Listener:
    """One session's events as messages; partial text that did not settle anything is none."""

    def __init__(self, spoken: Spoken, put: Callable[[TranscriptMessage], None]) -> None:
        self._spoken = spoken
        self._put = put
        self._committed = ""

    def heard(self, piece: Piece | FeaturePiece) -> None:
        """Audio is of no interest."""

    def event(self, event: SessionEvent) -> None:
        """See `LinkObserver`."""
        if (message := self._message(event)) is not None:
            self._put(message)

    def _message(self, event: SessionEvent) -> TranscriptMessage | None:
        spoken = self._spoken
        if isinstance(event, Final):
            self._committed = ""
            return TranscriptMessage(
                type="final",
                tenant=spoken.tenant,
                session=spoken.session,
                part=spoken.part,
                segment=event.segment,
                text=event.text,
                language=event.language,
                start_ms=event.start_ms,
                audio_ms=event.end_ms,
            )
        if isinstance(event, Partial) and event.committed != self._committed:
            self._committed = event.committed
            return TranscriptMessage(
                type="committed",
                tenant=spoken.tenant,
                session=spoken.session,
                part=spoken.part,
                segment=event.segment,
                text=event.committed,
                language=event.language,
                audio_ms=event.audio_ms,
            )
        return None


class NatsBus:
    """`run` is a task of the frontend; listeners only queue, at most `max_queued` messages."""

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
        self._max_queued = max_queued
        self._keep_seconds = keep_hours * 3600.0
        self._waiting: deque[tuple[str, str, bytes]] = deque()
        self._arrived = asyncio.Event()
        name = "auricle_frontend_transcript_messages"
        self._published = Counter(f"{name}_published", "text on the bus", registry=registry)
        self._dropped = Counter(f"{name}_dropped", "for want of NATS", registry=registry)
        waiting = Gauge(f"{name}_waiting", "not on the bus yet", registry=registry)
        waiting.set_function(lambda: len(self._waiting))

    def listener(self, spoken: Spoken) -> LinkObserver:
        """See `TranscriptBus`."""
        return _Listener(spoken, self._put)

    def _put(self, message: TranscriptMessage) -> None:
        if len(self._waiting) >= self._max_queued:
            self._waiting.popleft()
            self._dropped.inc()
        # The same text has the same id, whichever processor it came from.
        identity = f"{message.session}/{message.part}/{message.segment}/{message.type}"
        if message.type == "committed":
            identity += f"/{len(message.text)}"
        subject = f"{self._prefix}.{message.tenant}.{message.session}"
        self._waiting.append((subject, identity, msgspec.json.encode(message)))
        self._arrived.set()

    async def run(self) -> None:
        """Until cancelled; then what waits is given a last, short chance."""
        while True:
            try:
                await self._session()
            except (NatsError, OSError, TimeoutError) as error:
                log.warning("the transcript bus has no NATS: %s", error or type(error).__name__)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _session(self) -> None:
        """One connection; nats-py itself connects again after an interruption."""
        connection = await nats.connect(
            self._servers,
            max_reconnect_attempts=-1,
            reconnect_time_wait=_RETRY_SECONDS,
            connect_timeout=2,
            error_cb=_quiet,
        )
        try:
            stream = connection.jetstream(timeout=_PUBLISH_SECONDS)
            await self._make_stream(stream)
            try:
                while True:
                    await self._arrived.wait()
                    await self._send_waiting(stream)
            except asyncio.CancelledError:
                # A failure now must not take the cancellation's place: `run` would go on.
                with contextlib.suppress(NatsError, OSError, TimeoutError):
                    async with asyncio.timeout(_FLUSH_SECONDS):
                        await self._send_waiting(stream)
                raise
        finally:
            await connection.close()

    async def _make_stream(self, stream: Any) -> None:
        """One that is there already is left as it is: an operator may have changed it."""
        try:
            await stream.stream_info(STREAM)
            return
        except NotFoundError:
            log.info("making the stream %s", STREAM)
        config = StreamConfig(
            name=STREAM,
            subjects=[f"{self._prefix}.>"],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=self._keep_seconds,
            duplicate_window=min(_DUPLICATE_SECONDS, self._keep_seconds),
        )
        await stream.add_stream(config)

    async def _send_waiting(self, stream: Any) -> None:
        """In order, each until the stream has it."""
        while self._waiting:
            subject, identity, data = message = self._waiting[0]
            await stream.publish(
                subject, data, timeout=_PUBLISH_SECONDS, headers={"Nats-Msg-Id": identity}
            )
            self._published.inc()
            # It may have been dropped meanwhile to make room.
            if self._waiting and self._waiting[0] is message:
                self._waiting.popleft()
        self._arrived.clear()


async def _quiet(_error: Exception) -> None:
    """nats-py reports every failed attempt to connect; `run` has its own line."""
