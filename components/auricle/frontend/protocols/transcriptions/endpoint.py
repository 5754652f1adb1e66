"""`POST /v1/audio/transcriptions`, OpenAI's API for recordings, optionally streamed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar

from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Send

from auricle.core.errors import AuricleError
from auricle.frontend.link.words import entries
from auricle.frontend.protocols.transcriptions import formats
from auricle.frontend.protocols.transcriptions.form import TranscriptionForm, parse_as
from auricle.frontend.protocols.transcriptions.formats import TimedTranscript
from auricle.frontend.protocols.transcriptions.multipart import Upload, read_form, take_upload
from auricle.frontend.recordings.annotations import cut_off, missing_speakers, missing_words
from auricle.frontend.recordings.requests import RecordingEndpoint, RecordingRequest
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole, by_speaker
from auricle.frontend.transport.request_errors import error_body

# Header that names the fields without effect, and missing audio.
_WARNINGS = "Auricle-Warnings"
Outputs = AsyncGenerator[RecordingSegment | Whole, None]


class _Events:
    """OpenAI's server-sent events."""

    def __init__(self, request: TranscriptionForm) -> None:
        self._request = request
        self._segments: list[RecordingSegment] = []
        self._sayings = 0

    def delta(self, gap: str, segment: RecordingSegment) -> bytes:
        self._segments.append(segment)
        if self._request.wants_speakers:
            return self._by_speaker(gap, segment)
        return _event({"type": "transcript.text.delta", "delta": gap + segment.text})

    def _by_speaker(self, gap: str, segment: RecordingSegment) -> bytes:
        """Return a delta and a segment for each saying."""
        events = b""
        for saying in by_speaker(segment):
            event = formats.diarized_segment(self._sayings, saying)
            delta = {"type": "transcript.text.delta", "delta": gap + saying.text}
            events += _event({**delta, "segment_id": event["id"]}) + _event(event)
            self._sayings += 1
            gap = ""
        return events

    def done(self, end: Whole, usage: Mapping[str, int]) -> bytes:
        whole = TimedTranscript(self._segments, end.seconds, end.warnings)
        done = {
            "type": "transcript.text.done",
            "text": whole.text,
            "usage": {"type": "tokens", **usage},
            "duration": round(end.seconds, 3),  # an extension
        }
        warnings = _in_body(_warnings(self._request, whole))
        return _event({**done, **_scores(whole, self._request), **warnings})


class _Chunks:
    """vLLM's server-sent events, in the form of a streamed chat completion."""

    def __init__(self, request: TranscriptionForm, name: str) -> None:
        self._usage = bool(request.stream_include_usage)
        self._head = {
            "id": name,
            "object": request.chunk,
            "created": int(time.time()),
            "model": request.model,
        }

    def delta(self, gap: str, segment: RecordingSegment) -> bytes:
        return self._chunk({"content": gap + segment.text}, None, {})

    def done(self, end: Whole, usage: Mapping[str, int]) -> bytes:
        # The last chunk has no text, so that a recording without speech has a chunk too.
        last = self._chunk({"content": ""}, "stop", _in_body(end.warnings))
        if self._usage:
            last += _event({**self._head, "choices": [], "usage": _as_of_chat(usage)})
        return last + b"data: [DONE]\n\n"

    def _chunk(
        self, delta: Mapping[str, str], finish: str | None, more: Mapping[str, object]
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**self._head, "choices": [choice], **more})


def _as_of_chat(usage: Mapping[str, int]) -> dict[str, int]:
    """Return the usage with the names that it has in chat completions."""
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
    }


async def _stream(
    outputs: Outputs, events: _Events | _Chunks, request: TranscriptionForm, send: Send
) -> None:
    """Send each segment's text as a delta, in order, and the end of the stream."""
    begun = False
    segments: list[RecordingSegment] = []
    # The headers are sent with the first text, so that a failure before it has its own status.
    async for output in outputs:
        if isinstance(output, RecordingSegment):
            segments.append(output)
            if not output.text:
                continue
            data = events.delta(" " if begun else "", output)
        else:
            data = events.done(output, formats.token_usage(segments))
        if not begun:
            await send(_stream_head(request))
            begun = True
        await send(_body(data, more=isinstance(output, RecordingSegment)))


async def _with_warnings(outputs: Outputs, warnings: Sequence[str]) -> Outputs:
    async with aclosing(outputs) as found:
        async for output in found:
            if isinstance(output, Whole):
                yield replace(output, warnings=(*warnings, *output.warnings))
            else:
                yield output


async def _collect(outputs: Outputs) -> TimedTranscript:
    segments: list[RecordingSegment] = []
    whole = Whole(0.0)
    async for output in outputs:
        if isinstance(output, Whole):
            whole = output
        elif output.text:
            segments.append(output)
    return TimedTranscript(segments, whole.seconds, whole.warnings)


def _response(transcript: TimedTranscript, request: TranscriptionForm) -> Response:
    warnings = _warnings(request, transcript)
    headers = _headers(warnings)
    match request.response_format:
        case "json":
            body = formats.as_json(transcript) | _scores(transcript, request)
            told = _in_body([*request.warnings, *transcript.warnings])
            return JSONResponse(body | told, headers=headers)
        case "verbose_json":
            body = formats.as_verbose_json(transcript, request.task)
            body |= _annotations(transcript, request) | _scores(transcript, request)
            return JSONResponse(body | _in_body(warnings), headers=headers)
        case "diarized_json":
            body = formats.as_diarized_json(transcript)
            if request.wants_words:
                body["words"] = formats.words(transcript)
            return JSONResponse(body | _in_body(warnings), headers=headers)
        case "text":
            return PlainTextResponse(transcript.text + "\n", headers=headers)
        case "srt":
            srt = formats.as_srt(transcript, request.line_characters)
            return PlainTextResponse(srt, headers=headers, media_type="application/x-subrip")
        case "vtt":
            vtt = formats.as_vtt(transcript, request.line_characters)
            return PlainTextResponse(vtt, headers=headers, media_type="text/vtt")


def _annotations(transcript: TimedTranscript, request: TranscriptionForm) -> dict[str, object]:
    """Return the fields of `verbose_json` for words and, as an extension, for speakers."""
    found: dict[str, object] = {}
    if request.wants_words:
        found["words"] = formats.words(transcript)
    if request.wants_speakers:
        found["speakers"] = formats.by_speakers(transcript)
    return found


def _scores(transcript: TimedTranscript, request: TranscriptionForm) -> dict[str, object]:
    return {"logprobs": entries(transcript.tokens)} if request.wants_logprobs else {}


def _warnings(request: TranscriptionForm, transcript: TimedTranscript) -> list[str]:
    """Return all warnings: fields without effect, missing audio, missing parts of the answer."""
    segments = transcript.segments
    timed = segments if request.wants_words else ()
    return [
        *request.warnings,
        *transcript.warnings,
        *missing_words(segment.words for segment in timed),
        *missing_speakers(segment.speakers for segment in segments),
        *cut_off(segment.translation for segment in segments),
    ]


def _in_body(warnings: Sequence[str]) -> dict[str, object]:
    return {"warnings": list(warnings)} if warnings else {}


def _headers(warnings: list[str]) -> dict[str, str]:
    return {_WARNINGS: "; ".join(warnings)} if warnings else {}


def _stream_head(request: TranscriptionForm) -> Message:
    fields = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    fields |= _headers(request.warnings)
    headers = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _event(data: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


class TranscriptionRequests(RecordingEndpoint):
    """Serves the requests of OpenAI's API for recordings, on the event loop."""

    name = "http"
    form: ClassVar[type[TranscriptionForm]] = TranscriptionForm

    async def answer(self, call: RecordingRequest) -> None:
        """Read the form, and send the whole response or a stream of events."""
        async with self._requests.body(call, read_form) as form:
            upload = await take_upload(form)
            self._frontend.metrics.bytes("http", upload.size)
            request = parse_as(upload.fields, self.form)
            warnings = self._frontend.check_model(request.model)
            recording = self.recording(upload, request)
            outputs = self.outputs(self._requests.texts(call, recording), request)
            answer = _answer(_with_warnings(outputs, warnings), request, call)
            await call.while_client_stays(answer)

    def recording(self, upload: Upload, request: TranscriptionForm) -> Recording:
        """Return the recording to transcribe. Raises BadRequest if that is not possible here."""
        self._frontend.check_language(request.spoken, request.among)
        self._frontend.check_words(request.wants_words, request.words_asked_by)
        self._frontend.check_speakers(request.wants_speakers, request.speakers_asked_by)
        # With the times of words, text can be divided among speakers.
        divided = request.wants_speakers and self._frontend.settings.align_model is not None
        return Recording(
            path=upload.path,
            name=upload.name,
            language=request.spoken,
            languages=request.among,
            context=request.context,
            endpointing=request.chunking_strategy.for_recordings(self._frontend.settings),
            logprobs=request.needs_logprobs,
            words=request.wants_words or divided,
            diarize=request.wants_speakers,
            max_speakers=request.max_speakers,
            keep_damaged=request.on_damage == "keep",
        )

    def outputs(self, outputs: Outputs, _request: TranscriptionForm) -> Outputs:
        """Return the segments of the response."""
        return outputs

    def broken(self, error: AuricleError) -> bytes:
        """Return the last event of a stream that failed."""
        return _event({"type": "error", **error_body(error)})


async def _answer(outputs: Outputs, request: TranscriptionForm, call: RecordingRequest) -> None:
    async with aclosing(outputs) as texts:
        if request.stream:
            events = _Chunks(request, call.name) if request.wants_chunks else _Events(request)
            await _stream(texts, events, request, call.send)
        else:
            await call.respond(_response(await _collect(texts), request))
