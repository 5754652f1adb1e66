"""What the requests for recordings share, whatever their API: keys, limits, draining, errors.

A request is an ASGI application, not a FastAPI handler. One scope then covers the whole request,
streamed responses included, and frees the upload, the decoding process and the sessions when the
request ends or the client leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import first_failure_or
from auricle.core.errors import AuricleError
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.frontend import Frontend
from auricle.frontend.recordings.transcriber import (
    DecodedSeconds,
    Recording,
    RecordingSegment,
    RecordingTranscriber,
    Whole,
)
from auricle.frontend.recordings.uploads import B, CheckSize, Uploads
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import address_of
from auricle.frontend.transport.client_gone import ClientGone
from auricle.frontend.transport.live_sessions import Record

log = logging.getLogger(__name__)

# Whom a recording is charged to, and how much.


async def charged(
    outputs: AsyncGenerator[DecodedSeconds | RecordingSegment | Whole, None],
    client: ClientAccount,
    reached: Callable[[float], None],
) -> AsyncGenerator[RecordingSegment | Whole, None]:
    """Pass on texts, and charge the client for audio when it is decoded, as for live sessions.

    Silence is charged too, and so is what was decoded of a recording that fails. A recording may
    overdraw the rate; the client's next one must wait. `reached(seconds)` is told how much of
    the recording has its text.
    """
    async with aclosing(outputs):
        async for output in outputs:
            match output:
                case DecodedSeconds(seconds=seconds):
                    client.spend(seconds)
                    continue
                case RecordingSegment(end=end):
                    reached(end / SAMPLE_RATE)
                case Whole(seconds=seconds):
                    reached(seconds)
            yield output


def owner(client: ClientAccount, scope: Scope) -> str:
    """Return whom a recording takes turns for: its tenant, or without keys its address."""
    if client.key is not ANYONE:
        return client.tenant
    peer: tuple[str, int] | None = scope.get("client")
    return "unknown" if peer is None else peer[0]


@dataclass(frozen=True)
class RecordingProtocol:
    """One API for recordings. `name` is in the log.

    `answer` reads an admitted request's body and sends the answer. `refusal(error, request's name)`
    is the response that tells an error, and `broken(error)` the end of an answer that had begun.
    """

    name: str
    answer: Callable[[RecordingRequest], Awaitable[None]]
    refusal: Callable[[AuricleError, str], Response]
    broken: Callable[[AuricleError], bytes] = lambda _error: b""


class Started:
    """Wraps `send` and records how much of the response was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers_sent = False
        self.complete = False

    async def __call__(self, message: Message) -> None:
        """Send an ASGI message."""
        if message["type"] == "http.response.start":
            self.headers_sent = True
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True


@dataclass
class RecordingRequest:
    """One request. `client` is set before `answer` is called."""

    scope: Scope
    receive: Receive
    send: Started
    record: Record
    _client: ClientAccount | None = field(default=None, init=False)

    @property
    def client(self) -> ClientAccount:
        """Who sent it."""
        assert self._client is not None
        return self._client

    @property
    def name(self) -> str:
        """Its name in the log and in some answers."""
        return self.record.name

    def identified(self, client: ClientAccount) -> None:
        """Its client is known."""
        self._client = client

    def reached(self, seconds: float) -> None:
        """The first `seconds` of the recording have their text."""
        self.record.audio_seconds = max(self.record.audio_seconds, seconds)

    def recording(
        self,
        path: Path,
        name: str,
        *,
        language: str | None,
        languages: tuple[str, ...] = (),
        context: str,
        endpointing: EndpointingOptions | None,
        channel: int | None = None,
        logprobs: bool = False,
        words: bool = False,
        grid_words: bool = False,
        translate: str | None = None,
        to_english: bool = False,
        diarize: bool = False,
    ) -> Recording:
        """Return what is to be transcribed; `name` is the client's file name."""
        return Recording(
            id=self.name,
            trace=self.record.trace,
            path=path,
            name=name,
            tenant=self.client.tenant,
            owner=owner(self.client, self.scope),
            language=language,
            languages=languages,
            context=context,
            endpointing=endpointing,
            channel=channel,
            logprobs=logprobs,
            words=words,
            grid_words=grid_words,
            translate=translate,
            to_english=to_english,
            diarize=diarize,
        )

    async def while_client_stays(self, answering: Coroutine[Any, Any, None]) -> None:
        """Await `answering`, after the body was read. Raises ClientDisconnect if the client leaves
        before its answer is complete."""
        leaving = asyncio.create_task(_leaves(self.receive, self.send))
        await first_failure_or(asyncio.create_task(answering), [leaving])

    async def respond(self, response: Response) -> None:
        """Send a response, after the body was read."""
        await response(self.scope, _no_receive, self.send)


class RecordingRequests:
    """Serves requests of all APIs on the event loop, of which at most `max_recordings` are complete
    at a time."""

    def __init__(
        self,
        frontend: Frontend,
        access: Access,
        transcriber: RecordingTranscriber,
    ) -> None:
        self.frontend = frontend
        self._settings = frontend.settings
        self._access = access
        self._transcriber = transcriber
        self._metrics = frontend.metrics
        self._sessions = frontend.live_sessions
        self._uploads = Uploads(self._settings)
        self._metrics.uploads.set_function(lambda: self._uploads.in_progress)
        self._metrics.recordings.set_function(lambda: self._uploads.in_work)

    async def serve(
        self, protocol: RecordingProtocol, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve one request. All errors are sent to the client; none are raised."""
        record = Record(protocol.name, address_of(scope.get("client")), "recording")
        request = RecordingRequest(scope, receive, Started(send), record)
        try:
            with self._sessions.settled(record):
                await self._serve(protocol, request)
        except ClientGone:
            log.debug("the client of %s has left", record.name)
        except AuricleError as error:
            await _fail(protocol, request, error)

    @asynccontextmanager
    async def body(
        self, request: RecordingRequest, read: Callable[[Request, CheckSize], Awaitable[B]]
    ) -> AsyncIterator[B]:
        """Yield what `read` makes of the request's body: see `Uploads.taken`."""
        client, most = request.client, self._settings.max_upload_bytes
        async with self._uploads.taken(
            request.scope,
            request.receive,
            client,
            lambda size: client.check_size(size, most),
            read,
        ) as body:
            yield body

    def texts(
        self, request: RecordingRequest, recording: Recording
    ) -> AsyncGenerator[RecordingSegment | Whole, None]:
        """Yield the recording's segments, then `Whole`; charge the client for it. Close it."""
        outputs = self._transcriber.transcribe(recording)
        return charged(outputs, request.client, request.reached)

    async def _serve(self, protocol: RecordingProtocol, request: RecordingRequest) -> None:
        client = self._access.client(Headers(scope=request.scope), "recordings")
        self._uploads.check_room()  # before a client uploads what would be refused
        request.identified(client)
        try:
            await self._sessions.recording(request.record, client, lambda: protocol.answer(request))
        except ClientDisconnect:
            raise ClientGone from None


async def _fail(
    protocol: RecordingProtocol, request: RecordingRequest, error: AuricleError
) -> None:
    """Send an error response, or the end of a response that has begun."""
    if request.send.headers_sent:
        await request.send({"type": "http.response.body", "body": protocol.broken(error)})
    else:
        response = protocol.refusal(error, request.name)
        await response(request.scope, request.receive, request.send)


async def _leaves(receive: Receive, answer: Started) -> None:
    """Raise ClientDisconnect when the client leaves before the response is complete.

    Call this after the request's body was read.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
    # ASGI servers also send "disconnect" after a complete response.
    if not answer.complete:
        raise ClientDisconnect


async def _no_receive() -> Message:
    """Wait for ever, because `_leaves` receives the client's messages."""
    return await asyncio.Event().wait()  # type: ignore[return-value]
