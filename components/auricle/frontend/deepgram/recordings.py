"""`POST /v1/listen`: one recording, from its body to Deepgram's answer."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from auricle.frontend.deepgram.answer import Channel, answer
from auricle.frontend.deepgram.messages import denial
from auricle.frontend.deepgram.recording_options import RecordingOptions, parse_recording_options
from auricle.frontend.deepgram.upload import RecordingBody, read_body
from auricle.frontend.doors.queries import query_string
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.recordings.requests import (
    RecordingProtocol,
    RecordingRequest,
    RecordingRequests,
)
from auricle.frontend.recordings.transcriber import Segment, Whole
from auricle.frontend.recordings.uploads import on_disk
from auricle.speakers.model import NO_SPEAKER_MODEL


class ListenRecordings:
    """Serves the requests of Deepgram's API for recordings, on the event loop."""

    def __init__(self, requests: RecordingRequests) -> None:
        self._requests = requests
        self._frontend = requests.frontend
        self._protocol = RecordingProtocol("listen", self._transcribe, denial)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. All errors are sent to the client; none are raised."""
        await self._requests.serve(self._protocol, scope, receive, send)

    async def _transcribe(self, asked: RecordingRequest) -> None:
        created = datetime.now(UTC)
        # Before a client uploads what would be refused.
        options = self._options(query_string(Request(asked.scope)))
        self._frontend.check_model(options.model)
        async with self._requests.body(asked, read_body) as body:
            self._frontend.metrics.bytes("http", body.size)
            path = await on_disk(body.file)
            await asked.while_client_stays(self._answer(asked, options, body, path, created))

    async def _answer(
        self,
        asked: RecordingRequest,
        options: RecordingOptions,
        body: RecordingBody,
        path: Path,
        created: datetime,
    ) -> None:
        channels = await self._channels(asked, options, path)
        model = self._frontend.model
        answered = answer(asked.name, model, body.sha256, created, channels, options)
        await asked.respond(JSONResponse(answered))

    async def _channels(
        self, asked: RecordingRequest, options: RecordingOptions, path: Path
    ) -> list[Channel]:
        """Transcribe the recording; with `multichannel` each channel, one after the other."""
        if not options.multichannel:
            return [await self._channel(asked, options, path, None)]
        channels = [await self._channel(asked, options, path, 0)]
        for number in range(1, channels[0].whole.channels):
            channels.append(await self._channel(asked, options, path, number))
        return channels

    async def _channel(
        self, asked: RecordingRequest, options: RecordingOptions, path: Path, number: int | None
    ) -> Channel:
        settings = self._frontend.settings
        recording = asked.recording(
            path,
            "the recording",
            language=options.language,
            context=options.context,
            endpointing=EndpointingOptions.chosen(settings, enabled=None, recorded=True),
            channel=number,
            # Its clients expect them without asking.
            words=settings.align_model is not None,
            grid_words=True,
            diarize=options.diarize,
        )
        segments: list[Segment] = []
        whole = Whole(0.0)
        async with aclosing(self._requests.texts(asked, recording)) as outputs:
            async for output in outputs:
                if isinstance(output, Whole):
                    whole = output
                elif output.text:
                    segments.append(output)
        return Channel(segments, whole)

    def _options(self, query: str) -> RecordingOptions:
        """Parse the query; what cannot be had here has no effect. Raises BadRequest."""
        options = parse_recording_options(query)
        if not options.diarize or self._frontend.settings.speaker_model is not None:
            return options
        warning = f"diarize has no effect: {NO_SPEAKER_MODEL}"
        return replace(options, diarize=False, warnings=(*options.warnings, warning))
