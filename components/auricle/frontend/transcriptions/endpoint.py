"""One transcription request, from its body to its answer, as a single coroutine.

An ASGI application of its own, not a FastAPI handler: the whole life of a request,
streamed answers included, is then one scope that frees the upload, the decoding
process and the sessions when it ends, or when the client leaves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from auricle.audio.mel import SAMPLE_RATE
from auricle.errors import UNFORESEEN, AuricleError, Overloaded
from auricle.frontend.access.gate import Access
from auricle.frontend.access.limits import Client
from auricle.frontend.backend import Backend
from auricle.frontend.endpointing import EndpointingOptions
from auricle.frontend.http_errors import error_body, error_response
from auricle.frontend.recordings.transcriber import (
    Recording,
    RecordingTranscriber,
    Segment,
    Whole,
)
from auricle.frontend.transcriptions import formats
from auricle.frontend.transcriptions.form import ChunkingStrategy, TranscriptionForm, parse_form
from auricle.frontend.transcriptions.formats import Transcript
from auricle.frontend.transcriptions.upload import Turnstile, read_form, take_upload
from auricle.logs import about
from auricle.tasks import first_failure_or

log = logging.getLogger(__name__)


class TranscriptionRequests:
    """All of them: at most `max_recordings` at a time, waiting ones included."""

    def __init__(
        self,
        backend: Backend,
        access: Access,
        transcriber: RecordingTranscriber,
    ) -> None:
        self._backend = backend
        self._settings = backend.settings
        self._access = access
        self._transcriber = transcriber
        self._metrics = backend.metrics
        self._turnstile = Turnstile()
        self._open = 0
        self._metrics.recordings.set_function(lambda: self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Never raises for what a client did."""
        started = _Started(send)
        self._open += 1
        try:
            await self._serve(scope, receive, started)
            self._metrics.recording_ended("done")
        except ClientDisconnect:
            self._metrics.recording_ended("client_gone")
        except AuricleError as error:
            self._metrics.recording_ended(error.code)
            await self._fail(error, scope, receive, started)
        except Exception:
            log.exception("a transcription failed in a way nobody thought of")
            self._metrics.recording_ended(AuricleError.code)
            await self._fail(AuricleError(UNFORESEEN), scope, receive, started)
        finally:
            self._open -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self._access.client(Headers(scope=scope))
        if self._open > self._settings.max_recordings:
            raise Overloaded(f"{self._settings.max_recordings} recordings are in work; try again")
        name = f"rec_{uuid.uuid4().hex}"
        with (
            self._backend.front_door.recording(),
            about(session=name, tenant=client.tenant),
            self._backend.tracer.span("recording", session=name, tenant=client.tenant) as trace,
        ):
            await self._transcribe(name, trace, client, scope, receive, send)

    async def _transcribe(
        self, name: str, trace: str, client: Client, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with client.session():
            form = await read_form(
                scope,
                receive,
                lambda size: client.check_size(size, self._settings.max_upload_bytes),
                self._settings.upload_timeout_seconds,
                self._turnstile,
            )
            try:
                upload = await take_upload(form)
                self._metrics.bytes("http", upload.size)
                request = parse_form(upload.fields)
                self._backend.check_model(request.model)
                recording = Recording(
                    id=name,
                    trace=trace,
                    path=upload.path,
                    name=upload.name,
                    tenant=client.tenant,
                    language=request.language,
                    context=request.prompt,
                    endpointing=self._endpointing(request.chunking_strategy),
                    timed=request.stream or request.response_format not in formats.WITHOUT_TIMES,
                )
                answer = asyncio.create_task(self._answer(recording, request, client, scope, send))
                await first_failure_or(answer, [asyncio.create_task(_leaves(receive))])
            finally:
                await form.close()

    async def _answer(
        self,
        recording: Recording,
        request: TranscriptionForm,
        client: Client,
        scope: Scope,
        send: Send,
    ) -> None:
        outputs = self._transcriber.transcribe(recording)
        async with aclosing(_charged(outputs, client)) as charged:
            if request.stream:
                await _stream(charged, scope, send)
            else:
                transcript = await _collect(charged)
                await _response(transcript, request)(scope, _no_receive, send)

    def _endpointing(self, wanted: ChunkingStrategy) -> EndpointingOptions | None:
        """The request's own values, else the server's; None if all audio is to be decoded."""
        if wanted.type == "none" or (wanted.type == "auto" and not self._settings.endpointing):
            return None
        return wanted.over(self._settings)

    async def _fail(
        self, error: AuricleError, scope: Scope, receive: Receive, started: _Started
    ) -> None:
        """An error answer, or an error event if the answer has begun."""
        if error.code == AuricleError.code:
            log.error("a transcription failed: %s", error)
        if started.headers_sent:
            await started(_body(_event({"type": "error", **error_body(error)}), more=False))
        else:
            await error_response(error)(scope, receive, started)


class _Started:
    """`send`, remembering whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.headers_sent = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.headers_sent = True
        await self._send(message)


async def _leaves(receive: Receive) -> None:
    """Raises ClientDisconnect when the client is gone; the body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnect


async def _charged(
    outputs: AsyncGenerator[Segment | Whole, None], client: Client
) -> AsyncGenerator[Segment | Whole, None]:
    """A recording is taken whole: what it overdraws is waited off before the next one."""
    async with aclosing(outputs):
        async for output in outputs:
            if isinstance(output, Segment):
                client.spend((output.end - output.start) / SAMPLE_RATE)
            yield output


async def _collect(outputs: AsyncGenerator[Segment | Whole, None]) -> Transcript:
    segments: list[Segment] = []
    seconds = 0.0
    async for output in outputs:
        if isinstance(output, Whole):
            seconds = output.seconds
        elif output.text:
            segments.append(output)
    return Transcript(segments, seconds)


async def _stream(outputs: AsyncGenerator[Segment | Whole, None], scope: Scope, send: Send) -> None:
    """Each segment's text as a delta, in order, then the whole."""
    texts: list[str] = []
    # Nothing is sent before there is something to say: until then a failure has its own status.
    async for output in outputs:
        if isinstance(output, Segment):
            if output.text:
                delta = output.text if not texts else f" {output.text}"
                texts.append(delta)
                await _start_stream(send, first=len(texts) == 1)
                await send(_body(_event({"type": "transcript.text.delta", "delta": delta})))
        else:
            await _start_stream(send, first=not texts)
            done = {"type": "transcript.text.done", "text": "".join(texts)}
            done_event = _event({**done, "usage": formats.usage(output.seconds)})
            await send(_body(done_event, more=False))


async def _start_stream(send: Send, *, first: bool) -> None:
    if first:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})


def _event(data: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _response(transcript: Transcript, request: TranscriptionForm) -> Response:
    match request.response_format:
        case "json":
            return JSONResponse(formats.as_json(transcript))
        case "verbose_json":
            return JSONResponse(formats.as_verbose_json(transcript))
        case "text":
            return PlainTextResponse(transcript.text + "\n")
        case "srt":
            return PlainTextResponse(formats.as_srt(transcript), media_type="application/x-subrip")
        case "vtt":
            return PlainTextResponse(formats.as_vtt(transcript), media_type="text/vtt")


async def _no_receive() -> Message:
    """The client is being listened to elsewhere."""
    return await asyncio.Event().wait()  # type: ignore[return-value]
