"""One transcription request, from its body to its response, as a single coroutine.

This is an ASGI application, not a FastAPI handler. One scope then covers the whole request,
streamed responses included, and frees the upload, the decoding process and the sessions when
the request ends or the client leaves.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from auricle.errors import UNFORESEEN, AuricleError
from auricle.frontend.doors.access.gate import Access
from auricle.frontend.doors.access.key_limits import KeyLimits
from auricle.frontend.doors.access.limits import Client
from auricle.frontend.doors.addresses import address_of
from auricle.frontend.doors.http_errors import error_response
from auricle.frontend.doors.session_log import log_ended
from auricle.frontend.frontend import Frontend
from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.recordings.transcriber import Recording, RecordingTranscriber
from auricle.frontend.transcriptions.answers import answer, error_event
from auricle.frontend.transcriptions.charging import charged, owner
from auricle.frontend.transcriptions.form import ChunkingStrategy, TranscriptionForm, parse_form
from auricle.frontend.transcriptions.upload import Uploads, take_upload
from auricle.process.logs import about
from auricle.tasks import first_failure_or, outcome_of

log = logging.getLogger(__name__)


class TranscriptionRequests:
    """Serves requests on the event loop, at most `max_recordings` complete ones at a time."""

    def __init__(
        self,
        frontend: Frontend,
        access: Access,
        transcriber: RecordingTranscriber,
        key_limits: KeyLimits,
    ) -> None:
        self._frontend = frontend
        self._settings = frontend.settings
        self._access = access
        self._transcriber = transcriber
        self._metrics = frontend.metrics
        self._key_limits = key_limits
        self._uploads = Uploads(self._settings)
        self._metrics.uploads.set_function(lambda: self._uploads.in_progress)
        self._metrics.recordings.set_function(lambda: self._uploads.in_work)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. All errors are sent to the client; none are raised."""
        started, work = _Started(send), _Work()
        failure: AuricleError | None = None
        try:
            await self._serve(work, scope, receive, started)
            outcome = "done"
        except ClientDisconnect:
            outcome = "client_gone"
        except AuricleError as error:
            failure, outcome = error, error.code
        except Exception:
            log.exception("recording %s failed with an unexpected error", work.name)
            failure, outcome = AuricleError(UNFORESEEN), AuricleError.code
        self._ended(work, outcome, failure, scope)
        if failure is not None:
            await self._fail(failure, work, scope, receive, started)

    def _ended(self, work: _Work, outcome: str, failure: AuricleError | None, scope: Scope) -> None:
        self._metrics.recording_ended(outcome)
        if work.admitted:
            with about(tenant=work.tenant):
                log_ended("recording", work.name, "http", work.seconds, outcome)
        elif failure is not None:
            self._frontend.refusals.refused(
                address_of(scope.get("client")), failure.code, str(failure)
            )

    async def _serve(self, work: _Work, scope: Scope, receive: Receive, send: _Started) -> None:
        client = self._access.client(Headers(scope=scope), "recordings")
        self._uploads.check_room()  # before a client uploads what would be refused
        work.tenant = client.tenant
        with (
            self._key_limits.one(client),
            self._frontend.front_door.recording() as over,
            about(session=work.name, tenant=client.tenant),
            self._frontend.tracer.span(
                "recording", session=work.name, tenant=client.tenant
            ) as trace,
        ):
            transcribing = self._transcribe(work, trace, client, scope, receive, send)
            await first_failure_or(
                asyncio.create_task(transcribing), [asyncio.create_task(outcome_of(over))]
            )

    async def _transcribe(
        self,
        work: _Work,
        trace: str,
        client: Client,
        scope: Scope,
        receive: Receive,
        send: _Started,
    ) -> None:
        async with client.session("recordings"):
            work.admitted = True
            async with self._uploads.form(
                scope,
                receive,
                client,
                lambda size: client.check_size(size, self._settings.max_upload_bytes),
            ) as form:
                upload = await take_upload(form)
                self._metrics.bytes("http", upload.size)
                request = parse_form(upload.fields)
                self._frontend.check_model(request.model)
                recording = Recording(
                    id=work.name,
                    trace=trace,
                    path=upload.path,
                    name=upload.name,
                    tenant=client.tenant,
                    owner=owner(client, scope),
                    language=request.spoken,
                    context=request.context,
                    endpointing=self._endpointing(request.chunking_strategy),
                    logprobs=request.wants_logprobs,
                )
                answering = asyncio.create_task(
                    self._answer(recording, request, client, work, scope, send)
                )
                leaving = asyncio.create_task(_leaves(receive, send))
                await first_failure_or(answering, [leaving])

    async def _answer(
        self,
        recording: Recording,
        request: TranscriptionForm,
        client: Client,
        work: _Work,
        scope: Scope,
        send: Send,
    ) -> None:
        outputs = charged(self._transcriber.transcribe(recording), client, work.reached)
        await answer(outputs, request, work.name, scope, send)

    def _endpointing(self, wanted: ChunkingStrategy) -> EndpointingOptions | None:
        """Return the request's options, the server's as defaults; None to decode all audio."""
        if wanted.type == "none" or (wanted.type == "auto" and not self._settings.endpointing):
            return None
        return wanted.over(self._settings)

    async def _fail(
        self, error: AuricleError, work: _Work, scope: Scope, receive: Receive, started: _Started
    ) -> None:
        """Send an error response, or an error event if the response has begun."""
        if error.told is not None:
            log.error("recording %s failed: %s", work.name, error)
        if started.headers_sent:
            await started(error_event(error))
        else:
            await error_response(error)(scope, receive, started)


@dataclass
class _Work:
    """What is logged of one request; `seconds` of the recording were transcribed."""

    name: str = field(default_factory=lambda: f"rec_{uuid.uuid4().hex}")
    tenant: str = ""
    admitted: bool = False
    seconds: float = 0.0

    def reached(self, seconds: float) -> None:
        """The first `seconds` of the recording have their text."""
        self.seconds = seconds


class _Started:
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


async def _leaves(receive: Receive, answer: _Started) -> None:
    """Raise ClientDisconnect when the client leaves before the response is complete.

    Call this after the request's body was read.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
    # ASGI servers also send "disconnect" after a complete response.
    if not answer.complete:
        raise ClientDisconnect
