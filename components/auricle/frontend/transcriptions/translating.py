"""`POST /v1/audio/translations`: recordings in another language, as OpenAI and vLLM have it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, Literal

from starlette.types import Receive, Scope, Send

from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoint.languages import ENGLISH, language_code, language_name
from auricle.errors import AuricleError, UnsupportedValue, WorkerUnavailable, from_code
from auricle.frontend.doors.http_errors import error_response
from auricle.frontend.doors.options import Language
from auricle.frontend.recordings.requests import (
    RecordingProtocol,
    RecordingRequest,
    RecordingRequests,
)
from auricle.frontend.recordings.transcriber import Segment, Whole
from auricle.frontend.transcriptions.answers import answer, error_event
from auricle.frontend.transcriptions.endpoint import endpointing
from auricle.frontend.transcriptions.form import TranscriptionForm, parse_as
from auricle.frontend.transcriptions.upload import read_form, take_upload
from auricle.translation.targets import CUT, check_targets

_PARAM = "to_language"
_STARTING_SECONDS = 30.0
TranslationFormat = Literal["json", "text", "verbose_json", "srt", "vtt"]


class TranslationForm(TranscriptionForm, frozen=True, kw_only=True):
    """All fields except `file`: those of a transcription, as far as a translation has such things,
    and vLLM's `to_language`.
    """

    task: ClassVar[str] = "translate"
    chunk: ClassVar[str] = "translation.chunk"
    response_format: TranslationFormat = "json"
    to_language: Language = "en"

    @property
    def target(self) -> str:
        """The target's ISO 639-1 code. Raises UnsupportedValue if there is none of that name."""
        code = language_code(language_name(self.to_language)) or self.to_language.strip().lower()
        check_targets((code,), _PARAM)
        return code

    def check(self) -> None:
        """Raise UnsupportedValue if what only a transcription has was asked for."""
        for field, asked in (
            ("include", bool(self.include)),
            ("timestamp_granularities", "word" in self.timestamp_granularities),
            ("max_line_characters", self.max_line_characters is not None),
        ):
            if asked:
                raise UnsupportedValue(
                    f"{field} cannot be used: a translation has no tokens or times of words", field
                )


class TranslationRequests:
    """Serves the requests of OpenAI's API for translated recordings, on the event loop."""

    def __init__(self, requests: RecordingRequests) -> None:
        self._requests = requests
        self._frontend = requests.frontend
        self._protocol = RecordingProtocol(
            "translations",
            self._translate,
            lambda error, _name: error_response(error),
            error_event,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. All errors are sent to the client; none are raised."""
        await self._requests.serve(self._protocol, scope, receive, send)

    async def _translate(self, asked: RecordingRequest) -> None:
        async with self._requests.body(asked, read_form) as form:
            upload = await take_upload(form)
            self._frontend.metrics.bytes("http", upload.size)
            request = parse_as(upload.fields, TranslationForm)
            request.check()
            self._frontend.check_model(request.model)
            self._frontend.check_translator((request.target,), _PARAM)
            by_speech = self._frontend.directions.of_speech(request.target)
            recording = asked.recording(
                upload.path,
                upload.name,
                language=request.spoken,
                languages=request.among,
                context=request.context,
                endpointing=endpointing(request.chunking_strategy, self._frontend.settings),
                translate=None if by_speech else request.target,
                to_english=by_speech,
            )
            texts = self._requests.texts(asked, recording)
            in_target = _in_english(texts) if by_speech else _in_target(texts, request.target)
            await asked.while_client_stays(answer(in_target, request, asked))


async def _in_english(
    outputs: AsyncGenerator[Segment | Whole, None],
) -> AsyncGenerator[Segment | Whole, None]:
    """Yield segments whose text is the speech model's own translation."""
    async with aclosing(outputs) as texts:
        async for output in texts:
            yield output if isinstance(output, Whole) else replace(output, language=ENGLISH)


async def _in_target(
    outputs: AsyncGenerator[Segment | Whole, None], target: str
) -> AsyncGenerator[Segment | Whole, None]:
    """Yield segments with their translations as text. Raises the error of one that is missing."""
    async with aclosing(outputs) as texts:
        async for output in texts:
            if isinstance(output, Whole) or not output.text:
                yield output
                continue
            if output.translation.missing not in ("", CUT):
                raise _error(output, target)
            name = language_name(target)
            yield replace(output, text=output.translation.text, language=name)


def _error(segment: Segment, target: str) -> AuricleError:
    """Return why a segment has no translation, or not all of it."""
    why, at = segment.translation.missing, segment.start / SAMPLE_RATE
    said = f"the text at {at:.1f} s was not translated ({why})"
    if why == UnsupportedValue.code:
        return UnsupportedValue(
            f"{said}: the model does not translate {segment.language or 'that'} into {target}",
            _PARAM,
        )
    if why == "starting":
        error = WorkerUnavailable(f"{said}: the translate pool is being started; try again")
        error.retry_after_seconds = _STARTING_SECONDS
        return error
    return from_code(why, said)
