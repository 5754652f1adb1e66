"""One transcription request, from its body to its response, as a single coroutine."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from auricle.frontend.doors.http_errors import error_body, error_response
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.recordings.requests import (
    RecordingProtocol,
    RecordingRequest,
    RecordingRequests,
)
from auricle.frontend.recordings.transcriber import Recording, Segment, Whole
from auricle.frontend.transcriptions import formats
from auricle.frontend.transcriptions.form import ChunkingStrategy, TranscriptionForm, parse_form
from auricle.frontend.transcriptions.formats import Transcript
from auricle.frontend.transcriptions.upload import read_form, take_upload


class TranscriptionRequests:
    """Serves the requests of OpenAI's API for recordings, on the event loop."""

    def __init__(self, requests: RecordingRequests) -> None:
        self._requests = requests
        self._frontend = requests.frontend
        self._settings = requests.frontend.settings
        self._metrics = requests.frontend.metrics
        self._protocol = RecordingProtocol(
            "http",
            self._transcribe,
            lambda error, _name: error_response(error),
            lambda error: _event({"type": "error", **error_body(error)}),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. All errors are sent to the client; none are raised."""
        await self._requests.serve(self._protocol, scope, receive, send)

    async def _transcribe(self, asked: RecordingRequest) -> None:
        async with self._requests.body(asked, read_form) as form:
            upload = await take_upload(form)
            self._metrics.bytes("http", upload.size)
            request = parse_form(upload.fields)
            self._frontend.check_model(request.model)
            recording = asked.recording(
                upload.path,
                upload.name,
                language=request.language,
                context=request.prompt,
                endpointing=self._endpointing(request.chunking_strategy),
            )
            await asked.while_client_stays(self._answer(recording, request, asked))

    async def _answer(
        self, recording: Recording, request: TranscriptionForm, asked: RecordingRequest
    ) -> None:
        async with aclosing(self._requests.texts(asked, recording)) as texts:
            if request.stream:
                await _stream(texts, asked.scope, asked.send)
            else:
                await asked.respond(_response(await _collect(texts), request))

    def _endpointing(self, wanted: ChunkingStrategy) -> EndpointingOptions | None:
        """Return the request's options, the server's as defaults; None to decode all audio."""
        if wanted.type == "none" or (wanted.type == "auto" and not self._settings.endpointing):
            return None
        return wanted.over(self._settings)


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
    """Send each segment's text as a delta, in order, then the whole text."""
    texts: list[str] = []
    # The headers are sent with the first text, so that a failure before it has its own status.
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
