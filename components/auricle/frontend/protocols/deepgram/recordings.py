"""`POST /v1/listen`: one recording, from its body to Deepgram's answer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from auricle.annotation.speakers.model import NO_SPEAKER_MODEL
from auricle.checkpoints.languages import language_code
from auricle.core.errors import AuricleError, BadRequest, UnsupportedValue
from auricle.core.limits import CONTEXT, LANGUAGE, MODEL
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.protocols.deepgram.messages import (
    alternative,
    denial,
    model_info,
    speaker_number,
    timestamp,
)
from auricle.frontend.protocols.deepgram.options import RecordingOptions, parse_recording_options
from auricle.frontend.recordings.annotations import missing_speakers, missing_words
from auricle.frontend.recordings.requests import (
    RecordingEndpoint,
    RecordingRequest,
    refusal_responses,
)
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole, by_speaker
from auricle.frontend.recordings.uploads import CheckSize, on_disk, storing
from auricle.frontend.transport.request_errors import query_string
from auricle.transcript.confidence import of_text

# The answer to `POST /v1/listen`. No I/O.
#
# Names and fields are Deepgram's; times are in seconds.


@dataclass(frozen=True)
class RecordingChannel:
    """One channel of a recording: its segments with text, in order."""

    segments: Sequence[RecordingSegment]
    whole: Whole


def answer(
    request: str,
    model: str,
    sha256: str,
    created: datetime,
    channels: Sequence[RecordingChannel],
    options: RecordingOptions,
) -> dict[str, Any]:
    results: dict[str, Any] = {"channels": [_channel(one, options) for one in channels]}
    if options.utterances:
        results["utterances"] = [
            utterance
            for number, channel in enumerate(channels)
            for segment in channel.segments
            for utterance in _utterances(request, number, segment)
        ]
    metadata = {
        "transaction_key": "deprecated",
        "request_id": request,
        "sha256": sha256,
        "created": timestamp(created),
        "duration": round(channels[0].whole.seconds, 3),
        "channels": len(channels),
        "models": [model],
        "model_info": {model: model_info(model)},
        "warnings": [
            *options.warnings,
            *channels[0].whole.warnings,
            *missing_words(one.words for channel in channels for one in channel.segments),
            *missing_speakers(one.speakers for channel in channels for one in channel.segments),
        ],
    }
    return {"metadata": metadata, "results": results}


def _channel(channel: RecordingChannel, options: RecordingOptions) -> dict[str, Any]:
    sayings = [saying for segment in channel.segments for saying in by_speaker(segment)]
    reply: dict[str, Any] = {
        "alternatives": [
            alternative(
                " ".join(one.text for one in channel.segments),
                [word for saying in sayings for word in saying.words],
                of_text(word.confidence for one in channel.segments for word in one.grid_words),
                [saying.speaker for saying in sayings for _ in saying.words],
            )
        ]
    }
    if options.says_language and channel.segments:
        names = Counter(segment.language for segment in channel.segments)
        name = names.most_common(1)[0][0]
        reply["detected_language"] = language_code(name) or name.lower()
    return reply


def _utterances(request: str, channel: int, segment: RecordingSegment) -> Iterator[dict[str, Any]]:
    """Yield the utterances of a segment: one for each turn of a speaker, if they are known."""
    sayings = by_speaker(segment)
    for saying in sayings:
        # The segment's confidence is the mean over all its words.
        own = len(sayings) > 1 and bool(saying.words)
        speakers = [saying.speaker] * len(saying.words)
        utterance = {
            "start": saying.start_ms / 1000,
            "end": saying.end_ms / 1000,
            **alternative(
                saying.text.strip(), saying.words, None if own else segment.confidence, speakers
            ),
            "channel": channel,
            "id": f"{request}.{channel}.{saying.start_ms}",
        }
        if saying.speaker is not None:
            utterance["speaker"] = speaker_number(saying.speaker)
        yield utterance


_IN_MEMORY_BYTES = 1 << 20


class RecordingBody:
    """A request's body, which is the recording itself: in memory up to 1 MiB, then on disk."""

    def __init__(self) -> None:
        # Closed with the file.
        spool = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self.file = UploadFile(spool, size=0)  # type: ignore[arg-type]  # as starlette's own
        self.digest = hashlib.sha256()

    @property
    def size(self) -> int:
        return self.file.size or 0

    async def write(self, data: bytes) -> None:
        """Add bytes. Raises StorageFull, Overloaded."""
        self.digest.update(data)
        with storing():
            await self.file.write(data)

    async def close(self) -> None:
        await self.file.close()


async def read_body(request: Request, check_size: CheckSize) -> RecordingBody:
    """Read the body. Raises BadRequest if it is a URL, a form or empty; see `Uploads.taken`."""
    _check_type(request.headers.get("content-type", ""))
    if (length := request.headers.get("content-length", "")).isdigit():
        check_size(int(length))
    body = RecordingBody()
    try:
        async for part in request.stream():
            await body.write(part)
        if not body.size:
            raise BadRequest("the body is empty; send the recording itself as the body")
    except BaseException:
        await body.close()
        raise
    return body


def _check_type(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        raise UnsupportedValue(
            "a recording at a URL is not fetched here; send the recording itself as the body",
            "url",
        )
    if kind.startswith("multipart/"):
        raise BadRequest("a form is not read here; send the recording itself as the body")


class ListenRecordings(RecordingEndpoint):
    """Serves the requests of Deepgram's API for recordings, on the event loop."""

    name = "listen"

    async def answer(self, request: RecordingRequest) -> None:
        created = datetime.now(UTC)
        # Before a client uploads a body that would be refused.
        options = self._options(query_string(Request(request.scope)))
        warnings = self._frontend.check_model(options.model)
        options = replace(options, warnings=(*warnings, *options.warnings))
        self._frontend.check_language(options.language)
        self._frontend.check_speakers(options.diarize)
        async with self._requests.body(request, read_body) as body:
            self._frontend.metrics.bytes("http", body.size)
            path = await on_disk(body.file)

            async def transcribe() -> None:
                channels = await self._channels(request, options, path)
                model, sha256 = self._frontend.model, body.digest.hexdigest()
                reply = answer(request.name, model, sha256, created, channels, options)
                await request.respond(JSONResponse(reply))

            await request.while_client_stays(transcribe())

    def refusal(self, error: AuricleError, request: str) -> Response:
        return denial(error, request)

    async def _channels(
        self, request: RecordingRequest, options: RecordingOptions, path: Path
    ) -> list[RecordingChannel]:
        """Transcribe the recording; with `multichannel` each channel, one after the other."""
        if not options.multichannel:
            return [await self._channel(request, options, path, None)]
        channels = [await self._channel(request, options, path, 0)]
        for number in range(1, channels[0].whole.channels):
            channels.append(await self._channel(request, options, path, number))
        return channels

    async def _channel(
        self, request: RecordingRequest, options: RecordingOptions, path: Path, number: int | None
    ) -> RecordingChannel:
        settings = self._frontend.settings
        recording = Recording(
            path=path,
            name="the recording",
            language=options.language,
            context=options.context,
            endpointing=EndpointingOptions.chosen(settings, enabled=None, recorded=True),
            channel=number,
            # Deepgram's clients expect words without an option.
            words=settings.align_model is not None,
            grid_words=True,
            diarize=options.diarize,
            keep_damaged=options.keep_damaged,
        )
        segments: list[RecordingSegment] = []
        whole = Whole(0.0)
        async with aclosing(self._requests.texts(request, recording)) as outputs:
            async for output in outputs:
                if isinstance(output, Whole):
                    whole = output
                elif output.text:
                    segments.append(output)
        return RecordingChannel(segments, whole)

    def _options(self, query: str) -> RecordingOptions:
        """Parse the query; options that this server lacks have no effect. Raises BadRequest."""
        options = parse_recording_options(query)
        if not options.diarize or self._frontend.settings.speaker_model is not None:
            return options
        warning = f"diarize has no effect: {NO_SPEAKER_MODEL}"
        return replace(options, diarize=False, warnings=(*options.warnings, warning))


# The OpenAPI description of `POST /v1/listen`, shown at /docs.

_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "model": ("the served model's name or an alias; see GET /v1/models", {"maxLength": MODEL}),
    "language": ("a code or name; detected by default", {"maxLength": LANGUAGE}),
    "keyterm": ("a term that the model may take into account", {"maxLength": CONTEXT}),
    "detect_language": ("name the language in the answer", {"enum": ["true", "false"]}),
    "utterances": ("also list each segment separately", {"enum": ["true", "false"]}),
    "diarize": ("name the speakers, where they are known", {"enum": ["true", "false"]}),
    "diarize_model": ("as diarize; there is one model", {"enum": ["latest", "v1", "v2"]}),
    "on_damage": ("`keep`: transcribe what can be decoded", {"enum": ["reject", "keep"]}),
    "multichannel": ("transcribe each channel separately", {"enum": ["true", "false"]}),
}
_ERROR = {
    "type": "object",
    "required": ["err_code", "err_msg", "request_id"],
    "properties": {
        "err_code": {"type": "string"},
        "err_msg": {"type": "string"},
        "request_id": {"type": "string"},
    },
}
LISTEN_OPENAPI: dict[str, Any] = {
    "parameters": [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": text,
            "schema": {"type": "string", **bounds},
        }
        for name, (text, bounds) in _QUERY.items()
    ],
    "requestBody": {
        "required": True,
        "description": "the recording itself",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    "responses": {
        "200": {
            "description": "the transcript",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **refusal_responses("an option cannot be used, or the body is not audio", _ERROR),
    },
}
