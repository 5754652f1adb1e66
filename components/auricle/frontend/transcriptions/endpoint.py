"""`POST /v1/audio/transcriptions`, OpenAI's API for recordings, optionally streamed."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from auricle.frontend.doors.http_errors import error_response
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.recordings.requests import (
    RecordingProtocol,
    RecordingRequest,
    RecordingRequests,
)
from auricle.frontend.transcriptions.answers import answer, error_event
from auricle.frontend.transcriptions.form import (
    ChunkingStrategy,
    TranscriptionForm,
    parse_form,
)
from auricle.frontend.transcriptions.upload import read_form, take_upload
from auricle.settings import FrontendSettings


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
            error_event,
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
            self._frontend.check_words(request.wants_words, request.words_asked_by)
            self._frontend.check_speakers(request.wants_speakers, "response_format")
            recording = asked.recording(
                upload.path,
                upload.name,
                language=request.spoken,
                languages=request.among,
                context=request.context,
                endpointing=endpointing(request.chunking_strategy, self._settings),
                logprobs=request.needs_logprobs,
                words=request.wants_words or self._divided_by_words(request),
                diarize=request.wants_speakers,
            )
            texts = self._requests.texts(asked, recording)
            await asked.while_client_stays(answer(texts, request, asked))

    def _divided_by_words(self, request: TranscriptionForm) -> bool:
        """Whether the times of words are needed, and there, to divide the text among speakers."""
        return request.wants_speakers and self._settings.align_model is not None


def endpointing(wanted: ChunkingStrategy, settings: FrontendSettings) -> EndpointingOptions | None:
    """Return the request's options, the server's as defaults; None to decode all audio."""
    return EndpointingOptions.chosen(
        settings,
        enabled={"none": False, "auto": None}.get(wanted.type, True),
        threshold=wanted.threshold,
        min_silence_ms=wanted.silence_duration_ms,
        pre_roll_ms=wanted.prefix_padding_ms,
        recorded=True,
    )
