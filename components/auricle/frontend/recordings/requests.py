"""Requests for recordings, for all APIs: keys, limits, draining, errors.

A request is an ASGI application, not a FastAPI handler. One scope then covers the whole request,
streamed responses included, and frees the upload, the decoding process and the sessions when the
request ends or the client leaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.aio import first_failure_or
from auricle.core.errors import AuricleError, NoJobs
from auricle.frontend.frontend import Frontend
from auricle.frontend.recordings.jobs.queue import JOBS, JobQueue
from auricle.frontend.recordings.jobs.store import StoredJob
from auricle.frontend.recordings.transcriber import (
    DecodedSeconds,
    Recording,
    RecordingSegment,
    RecordingTranscriber,
    Whole,
)
from auricle.frontend.recordings.uploads import B, CheckSize, Uploads
from auricle.frontend.transport.access.gate import Access
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import address_of, host_of
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle.frontend.transport.live_sessions import Record
from auricle.frontend.transport.request_errors import error_response

log = logging.getLogger(__name__)


_REFUSALS = {
    "401": "no or unknown API key",
    "403": "the API key is switched off, or not for recordings",
    "404": "no such model",
    "408": "the upload stalled or was too slow",
    "413": "the request or the recording is too large",
    "429": "the API key or address has reached a limit; see Retry-After",
    "503": "the server is full; see Retry-After",
    "507": "the server's disk is full; see Retry-After",
}


def refusal_responses(bad_request: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the error responses of an OpenAPI operation; `bad_request` describes status 400."""
    return {
        status: {"description": text, "content": {"application/json": {"schema": schema}}}
        for status, text in {"400": bad_request, **_REFUSALS}.items()
    }


async def charged(
    transcriber: RecordingTranscriber,
    wanted: Recording,
    record: Record,
    client: ClientAccount,
    host: str,
) -> AsyncGenerator[RecordingSegment | Whole, None]:
    """Transcribe for a client at `host`, and charge it for audio when it is decoded.

    Silence is charged too, and so is the decoded part of a recording that fails. A recording may
    overdraw the rate; the client's next one must wait.
    """
    recording = replace(
        wanted,
        id=record.name,
        trace=record.trace,
        tenant=client.tenant,
        owner=client.fairness_key(host),
    )
    async with aclosing(transcriber.transcribe(recording)) as outputs:
        async for output in outputs:
            if isinstance(output, DecodedSeconds):
                client.spend(output.seconds)
                continue
            done = output.seconds if isinstance(output, Whole) else output.end / SAMPLE_RATE
            record.audio_seconds = max(record.audio_seconds, done)
            yield output


RESPOND_ASYNC = "respond-async"


def prefers_async(headers: Headers) -> bool:
    """Whether a client prefers to be answered before its request is processed (RFC 7240)."""
    preferences = ",".join(headers.getlist("prefer")).split(",")
    return any(one.partition(";")[0].strip().lower() == RESPOND_ASYNC for one in preferences)


class Started:
    """Wraps `send` and records how much of the response was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers_sent = False
        self.complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.headers_sent = True
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True


@dataclass(frozen=True)
class RecordingRequest:
    """One admitted request."""

    scope: Scope
    receive: Receive
    send: Started
    record: Record
    client: ClientAccount

    @property
    def name(self) -> str:
        return self.record.name

    async def while_client_stays(self, answering: Coroutine[Any, Any, None]) -> None:
        """Await `answering`, after the body was read. Raises ClientDisconnect if the client leaves
        before the response is complete."""
        leaving = asyncio.create_task(_leaves(self.receive, self.send))
        await first_failure_or(asyncio.create_task(answering), [leaving])

    async def respond(self, response: Response) -> None:
        """Send a response, after the body was read."""
        await response(self.scope, _no_receive, self.send)


@dataclass(frozen=True)
class Exchange:
    """A stored request, and where its answer goes."""

    scope: Scope
    receive: Receive
    send: Started


class RecordingRequests:
    """Serves requests of all APIs on the event loop. At most `max_recordings` of them have a
    complete body at a time."""

    def __init__(
        self,
        frontend: Frontend,
        access: Access,
        transcriber: RecordingTranscriber,
        jobs: JobQueue | None = None,
    ) -> None:
        """With `jobs` clients may send recordings that are transcribed later."""
        self.frontend = frontend
        self._access = access
        self._transcriber = transcriber
        self._jobs = jobs
        self._sessions = frontend.live_sessions
        self._uploads = Uploads(frontend.settings, frontend.stored)
        frontend.metrics.uploads.set_function(lambda: self._uploads.in_progress)
        frontend.metrics.recordings.set_function(lambda: self._uploads.in_work)

    @property
    def has_room(self) -> bool:
        """Whether one more recording could be processed now."""
        return self._uploads.has_room

    async def serve(
        self, endpoint: RecordingEndpoint, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve one request, now or as a job. All errors are sent to the client; none are raised.

        A server without jobs answers now, as RFC 7240 requires for a preference that it lacks.
        """
        later = self._jobs is not None and prefers_async(Headers(scope=scope))
        await self._serve(endpoint, scope, receive, send, later=later)

    async def serve_later(
        self, endpoint: RecordingEndpoint, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Make a job of a request. All errors are sent to the client; none are raised."""
        await self._serve(endpoint, scope, receive, send, later=True)

    async def _serve(
        self,
        endpoint: RecordingEndpoint,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        later: bool,
    ) -> None:
        record = Record(endpoint.name, address_of(scope.get("client")), "recording")
        started = Started(send)
        try:
            with self._sessions.recorded(record):
                client = self._access.client(Headers(scope=scope), "recordings")
                request = RecordingRequest(scope, receive, started, record, client)
                await (self._submit(request) if later else self._answer(endpoint, request))
        except ClientDisconnected:
            log.debug("the client of %s has left", record.name)
        except AuricleError as error:
            await endpoint.fail(error, scope, receive, started, record)

    async def replay(
        self, endpoint: RecordingEndpoint, record: Record, job: StoredJob, stored: Exchange
    ) -> None:
        """Answer a job's request, as `serve` would have. Raises AuricleError.

        Raises Unauthorized or Forbidden if its tenant has no key for recordings any more.
        """
        with self._sessions.recorded(record):
            client = self._access.tenant(job.tenant, "recordings")
            request = RecordingRequest(stored.scope, stored.receive, stored.send, record, client)
            await self._answer(endpoint, request)

    async def _answer(self, endpoint: RecordingEndpoint, request: RecordingRequest) -> None:
        self._uploads.check_room()  # before a client uploads a body that would be refused
        answer = partial(endpoint.answer, request)
        try:
            await self._sessions.recording(request.record, request.client, answer)
        except ClientDisconnect:
            raise ClientDisconnected from None

    async def _submit(self, request: RecordingRequest) -> None:
        """Store the request, and answer with the job that it has become."""
        if (jobs := self._jobs) is None:
            raise NoJobs
        scope, client, most = request.scope, request.client, self.frontend.settings.max_upload_bytes

        def check_size(size: int) -> None:
            client.check_size(size, most)

        async def store() -> StoredJob:
            await jobs.check_room(client, scope, check_size)
            received = self._uploads.received(scope, request.receive, client, check_size, jobs.read)
            async with received as body:
                return await jobs.add(client, scope, body)

        try:
            job = await self._sessions.recording(request.record, client, store, stored=True)
        except ClientDisconnect:
            raise ClientDisconnected from None
        headers = {"Location": f"{JOBS}/{job.id}", "Preference-Applied": RESPOND_ASYNC}
        await request.respond(JSONResponse(jobs.document(job), 202, headers))

    def body(
        self, request: RecordingRequest, read: Callable[[Request, CheckSize], Awaitable[B]]
    ) -> AbstractAsyncContextManager[B]:
        """Yield the request's body as `read` returns it: see `Uploads.taken`."""
        client, most = request.client, self.frontend.settings.max_upload_bytes
        return self._uploads.taken(
            request.scope,
            request.receive,
            client,
            lambda size: client.check_size(size, most),
            read,
        )

    def texts(
        self, request: RecordingRequest, wanted: Recording
    ) -> AsyncGenerator[RecordingSegment | Whole, None]:
        """Yield the recording's segments, then `Whole`; charge the client for it. Close it."""
        host = host_of(request.scope.get("client"))
        return charged(self._transcriber, wanted, request.record, request.client, host)


class RecordingEndpoint:
    """One API for recordings, as an ASGI application; `name` is for the log."""

    name: ClassVar[str]

    def __init__(self, requests: RecordingRequests) -> None:
        self._requests = requests
        self._frontend = requests.frontend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._requests.serve(self, scope, receive, send)

    async def answer(self, request: RecordingRequest) -> None:
        """Read an admitted request's body and send the response. Raises AuricleError."""
        raise NotImplementedError

    async def fail(
        self, error: AuricleError, scope: Scope, receive: Receive, started: Started, record: Record
    ) -> None:
        """Send an error, also in the middle of a response."""
        if started.headers_sent:
            await started({"type": "http.response.body", "body": self.broken(error)})
        else:
            await self.refusal(error, record.name)(scope, receive, started)

    def refusal(self, error: AuricleError, _request: str) -> Response:
        return error_response(error)

    def broken(self, _error: AuricleError) -> bytes:
        """Return the end of a response that had begun before the error."""
        return b""


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
