"""One connection to NATS, and the JetStream stream that holds the transcripts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.errors import BadSubjectError, ConnectionClosedError, MaxPayloadError
from nats.js.api import Header, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from auricle.errors import AuricleError
from auricle.frontend.observers.transcript_queue import QueuedMessage
from auricle.tasks import unless, within

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
    outage, and send again what it buffered. Raises DeadlineExceeded or an error of the library.
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
        await within(_CONNECT_SECONDS, connecting, "connecting to NATS")
        yield TranscriptStream(client, ended)
    finally:
        await _close(client)


class TranscriptStream:
    """The stream over one connection. All waits have a deadline, and end with the connection.

    Every method raises what the client library raises, which is more than it documents.
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

    async def publish(self, message: QueuedMessage) -> None:
        """Return once the message is stored. Raises Refused if it never can be."""
        headers = {Header.MSG_ID: message.identity}
        try:
            await self._answer(self._stream.publish(message.subject, message.data, headers=headers))
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

    async def _answer(self, asked: Coroutine[Any, Any, T]) -> T:
        answer = await within(_ANSWER_SECONDS, unless(self._ended, asked), "an answer of NATS")
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
