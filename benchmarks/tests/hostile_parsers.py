"""Inputs of the hostile campaign against the frontend's own parsers, in this process.

Each parser treats an input as the frontend does before it calls another process. It raises the
AuricleError for the client; any other exception is a defect.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message, Scope

from auricle.audio.pcm import PcmStream
from auricle.audio.recording import RecordingLimits, read_recording
from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, BadRequest, ProtocolError
from auricle.dynamo import Tokens
from auricle.frontend.audio.chunks import Deinterleaver
from auricle.frontend.audio.ingest import FeatureIngest
from auricle.frontend.protocols import audiosocket, twilio, vapi, wyoming
from auricle.frontend.protocols.assemblyai import options as assemblyai
from auricle.frontend.protocols.assemblyai import session as assemblyai_messages
from auricle.frontend.protocols.deepgram import flux, messages
from auricle.frontend.protocols.deepgram.options import parse_options, parse_recording_options
from auricle.frontend.protocols.deepgram.recordings import read_body
from auricle.frontend.protocols.kserve.messages import (
    audio_of,
    parse_request,
    pcm_of,
    unchecked_request,
)
from auricle.frontend.protocols.kserve.service import RAW_FIELD
from auricle.frontend.protocols.realtime import events, translations
from auricle.frontend.protocols.realtime.config import SessionConfig
from auricle.frontend.protocols.riva.options import audio_format, parse_config
from auricle.frontend.protocols.riva.service import PACKAGE
from auricle.frontend.protocols.stream.refusals import ResumeMissing
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens, SentState
from auricle.frontend.protocols.stream.start import parse_end, parse_start
from auricle.frontend.protocols.transcriptions.form import TranscriptionForm, parse_as
from auricle.frontend.protocols.transcriptions.multipart import read_form, take_upload
from auricle.frontend.protocols.transcriptions.translating import TranslationForm
from auricle.frontend.recordings.uploads import B, CheckSize, Uploads
from auricle.frontend.transport.access.keys import ANYONE, ApiKey
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.grpc.schema import parsed
from auricle.protocol.annotation import TranslateRequest
from auricle.protocol.control import AskAlive
from auricle.protocol.diagnosis import AskDescription
from auricle.protocol.recognition import DecodeRequest, EncodeRequest
from auricle.protocol.sessions import (
    AdmitSession,
    EndAudio,
    OpenSession,
    PushAudio,
    ResumePoint,
    WithdrawAdmission,
)
from benchmarks.hostile.inputs import Call, Input, Lie, Post, Resumption, Session, Stream
from benchmarks.hostile.strategies import messages as paths
from benchmarks.hostile.strategies import ports, resumes
from benchmarks.hostile.strategies.http import TRANSCRIPTIONS, TRANSLATED

_REQUESTS: dict[str, Any] = {
    "processor.admit": AdmitSession,
    "processor.withdraw": WithdrawAdmission,
    "processor.open": OpenSession,
    "processor.push": PushAudio,
    "processor.end": EndAudio,
    "encode_worker.generate": EncodeRequest,
    "pd_worker.generate": DecodeRequest,
    "translate_worker.generate": TranslateRequest,
}
_EVENTS: dict[str, type[Any]] = {
    "transcribe": wyoming.Transcribe,
    "audio-start": wyoming.AudioFormat,
    "audio-chunk": wyoming.AudioFormat,
    "ping": wyoming.Ping,
}
_MAX_SEGMENT_SECONDS, _RECORDING_SECONDS = 20.0, 3_600.0
_MOST_UPLOADED, _MOST_PAYLOAD = 10_000_000, 1 << 20
_AUDIO_FIELD = 2
_NOISE_BYTES = 200  # of the file in a form whose fields are tested
_OTHER = ApiKey(name="other", sha256="0" * 64)
_SPOKEN = SentState(ResumePoint(1, 9_000, (7, 8, 9), "some text", 4_000), 1_000, received=30_000)
_APP = FastAPI()
Sent = tuple[tuple[int, bytes], ...]


def told(sent: Input) -> AuricleError | None:
    """Return the error with which the frontend answers an input, or None."""
    parsers: dict[type, Callable[[Any], None]] = {
        Session: _session, Post: _post, Stream: _stream, Call: _call, Lie: _lie,
        Resumption: _resumption,
    }  # fmt: skip
    try:
        parsers[type(sent)](sent)
    except AuricleError as error:
        return error
    return None


def _text(opcode: int, payload: bytes) -> str | None:
    """The text of a message, None of a binary one. The server closes after one without UTF-8."""
    try:
        return payload.decode() if opcode == 1 else None
    except UnicodeDecodeError:
        raise BadRequest("not UTF-8") from None


# Sessions.


def _session(sent: Session) -> None:
    path, _, query = sent.path.partition("?")
    _SESSIONS[path](query, sent.sent)


def _of_stream(_query: str, sent: Sent) -> None:
    if not sent:
        return
    start = parse_start(_text(*sent[0]))
    if start.encoding == "log_mel":
        asyncio.run(_features(start.feature_dtype, sent[1:]))
        return
    stream = PcmStream(start.sample_rate, start.encoding)
    for opcode, payload in sent[1:]:
        if (text := _text(opcode, payload)) is None:
            stream.push(payload)
        else:
            parse_end(text)
    stream.end()


async def _features(dtype: Any, sent: Sent) -> None:
    ingest = FeatureIngest(dtype, _MAX_SEGMENT_SECONDS)
    for opcode, payload in sent:
        if (text := _text(opcode, payload)) is not None:
            parse_end(text)
            break
        ingest.take(payload)
        while ingest.ready:
            await ingest.process()
    await ingest.end()


def _of_realtime(_query: str, sent: Sent) -> None:
    for opcode, payload in sent:
        if (text := _text(opcode, payload)) is None:
            raise ProtocolError("binary frames are not part of this protocol")
        event = events.parse_event(text)
        if isinstance(event, events.SessionUpdate):
            SessionConfig().updated(event.session)
        elif isinstance(event, events.Append):
            PcmStream(24_000).push(event.audio)


def _of_translations(_query: str, sent: Sent) -> None:
    for opcode, payload in sent:
        if (text := _text(opcode, payload)) is None:
            raise ProtocolError("binary frames are not part of this protocol")
        event = translations.parse(text)
        if isinstance(event, translations.Update):
            translations.TranslationConfig().updated(event.session)
        elif isinstance(event, translations.AppendTranslationAudio):
            PcmStream(translations.RATE).push(event.audio)


def _listened(sent: Sent, parse: Callable[[str], Any], channels: int = 1) -> None:
    interleaved = Deinterleaver(channels, sample_bytes=2)
    streams = [PcmStream(16_000) for _ in range(channels)]
    for opcode, payload in sent:
        if (text := _text(opcode, payload)) is not None:
            parse(text)
            continue
        for stream, part in zip(streams, interleaved.split(payload), strict=True):
            stream.push(part)


def _of_deepgram(query: str, sent: Sent) -> None:
    _listened(sent, messages.parse_message, parse_options(query, most_channels=8).channels)


def _of_flux(query: str, sent: Sent) -> None:
    flux.parse_flux_options(query, FrontendSettings().min_silence_ms)
    _listened(sent, flux.parse_message)


def _of_assemblyai(query: str, sent: Sent) -> None:
    options = assemblyai.parse_options(query, FrontendSettings().min_silence_ms)

    def parse(text: str) -> None:
        message = assemblyai_messages.parse_message(text)
        if isinstance(message, assemblyai_messages.UpdateConfiguration):
            options.updated(assemblyai_messages.parse_changes(text))

    _listened(sent, parse)


def _of_twilio(_query: str, sent: Sent) -> None:
    stream = PcmStream(twilio.SAMPLE_RATE, twilio.ENCODING)
    for opcode, payload in sent:
        text = _text(opcode, payload)
        message = None if text is None else twilio.parse_message(text)
        if isinstance(message, twilio.TwilioStart):
            twilio.Call.begun_by(message.start)
        elif isinstance(message, twilio.Media):
            stream.push(message.media.payload)


def _of_vapi(query: str, sent: Sent) -> None:
    vapi.parse_options(query)
    start = vapi.parse_start(_text(*sent[0]) if sent else None)
    interleaved = Deinterleaver(start.channels, sample_bytes=2)
    for opcode, payload in sent[1:]:
        if opcode == 2:
            interleaved.split(payload)


_SESSIONS: dict[str, Callable[[str, Sent], None]] = {
    paths.STREAM: _of_stream,
    paths.REALTIME: _of_realtime,
    paths.TRANSLATIONS: _of_translations,
    paths.LISTEN: _of_deepgram,
    paths.TURNS: _of_flux,
    paths.ASSEMBLYAI: _of_assemblyai,
    paths.TWILIO: _of_twilio,
    paths.VAPI: _of_vapi,
}


def _resumption(how: Resumption) -> None:
    tokens = ResumeTokens(Tokens(None, PURPOSE), seconds=120.0, model="demo")
    began = parse_start(json.dumps(resumes.STARTS[how.token]))
    binding = tokens.binding(_OTHER if how.token == resumes.ANOTHERS else ANYONE, began)
    state = SentState() if how.token == resumes.FRESH else _SPOKEN
    given = tokens.issue(binding, began.sample_rate, "sess_1", 640, None, state)
    start = parse_start(_text(1, resumes.first_message(how, given.token, given.from_sample)))
    if start.resume is None:
        raise ResumeMissing
    tokens.open(start.resume, tokens.binding(ANYONE, start), start.sample_rate)


# Recordings.


@asynccontextmanager
async def _taken(
    sent: Post, read: Callable[[Request, CheckSize], Awaitable[B]]
) -> AsyncIterator[B]:
    async def receive() -> Message:
        return {"type": "http.request", "body": sent.body, "more_body": False}

    def check_size(size: int) -> None:
        if size > _MOST_UPLOADED:
            raise BadRequest("too large")

    length = b"%d" % len(sent.body)
    scope: Scope = {
        **{"type": "http", "method": "POST", "path": "/", "query_string": b"", "app": _APP},
        "client": ("127.0.0.1", 1),
        "headers": [(b"content-type", sent.content_type), (b"content-length", length)],
    }
    uploads, client = Uploads(FrontendSettings()), ClientAccount(ANYONE)
    async with uploads.taken(scope, receive, client, check_size, read) as taken:
        yield taken


def _post(sent: Post) -> None:
    asyncio.run(_posted(sent))


async def _posted(sent: Post) -> None:
    if sent.path not in (TRANSCRIPTIONS, TRANSLATED):
        parse_recording_options(sent.path.partition("?")[2])
        async with _taken(sent, read_body):
            return
    async with _taken(sent, read_form) as form:
        upload = await take_upload(form)
        if sent.path == TRANSLATED:
            _ = parse_as(upload.fields, TranslationForm).target
        else:
            parse_as(upload.fields, TranscriptionForm)
        if upload.size <= _NOISE_BYTES:
            return
        with tempfile.TemporaryFile() as file:
            file.write(upload.path.read_bytes())
            file.seek(0)
            for _ in read_recording(file, "x", RecordingLimits(_RECORDING_SECONDS)):
                pass


# Other ports.


def _stream(sent: Stream) -> None:
    data = b"".join(sent.pieces)
    if sent.port == "audiosocket":
        frames = audiosocket.FrameParser()
        frames.feed(data)
        while (frame := frames.next()) is not None:
            if frame.kind in audiosocket.AUDIO_RATES:
                rate = audiosocket.AUDIO_RATES[frame.kind]
                PcmStream(rate, "pcm_s16le").push(frame.payload)
    elif sent.port == "wyoming":
        parser = wyoming.EventParser(_MOST_PAYLOAD)
        parser.feed(data)
        while (event := parser.next()) is not None:
            if event.kind in _EVENTS:
                event.read_as(_EVENTS[event.kind])


def _call(sent: Call) -> None:
    service, _, method = sent.method.strip("/").partition("/")
    for message in sent.messages:
        if service == ports.INFERENCE and method in ("ModelInfer", "ModelStreamInfer"):
            request = parsed("inference.ModelInferRequest", message, RAW_FIELD)
            unchecked_request(request)
            parse_request(request)
            pcm_of(*audio_of(request))
        elif service == ports.RECOGNITION and method == "Recognize":
            request = parsed(f"{PACKAGE}.RecognizeRequest", message, _AUDIO_FIELD)
            parse_config(request.config, streaming=False)
        elif service == ports.RECOGNITION and method == "StreamingRecognize":
            request = parsed(f"{PACKAGE}.StreamingRecognizeRequest", message, _AUDIO_FIELD)
            if request.HasField("streaming_config"):
                options = parse_config(request.streaming_config.config, streaming=True)
                audio_format(options, None)


def _lie(lie: Lie) -> None:
    kind = _REQUESTS.get(f"{lie.component}.{lie.endpoint}", AskAlive | AskDescription)
    try:
        msgspec.msgpack.decode(lie.packed, type=kind)
    except msgspec.DecodeError as error:
        raise BadRequest(str(error)) from None
