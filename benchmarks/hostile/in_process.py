"""The same cases against the frontend's own parsers, in this process and without a graph.

Each function takes what a case of its area sends and does what the frontend would do with it
before it asks anybody else. It returns the error that the client would be told, or None. Any
exception but an AuricleError is a defect.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message, Scope

from auricle.audio.pcm import PcmStream
from auricle.audio.recording import RecordingLimits, read_recording
from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, BadRequest
from auricle.dynamo import Tokens
from auricle.frontend.audio.chunks import Deinterleaver
from auricle.frontend.audio.ingest import FeatureIngest
from auricle.frontend.protocols.assemblyai import session as assemblyai_messages
from auricle.frontend.protocols.assemblyai.options import StreamingOptions
from auricle.frontend.protocols.assemblyai.options import parse_options as parse_streaming_options
from auricle.frontend.protocols.deepgram import flux as flux_messages
from auricle.frontend.protocols.deepgram import messages as deepgram_messages
from auricle.frontend.protocols.deepgram.flux import parse_flux_options
from auricle.frontend.protocols.deepgram.options import parse_options, parse_recording_options
from auricle.frontend.protocols.deepgram.recordings import read_body
from auricle.frontend.protocols.realtime import events
from auricle.frontend.protocols.realtime.config import SessionConfig
from auricle.frontend.protocols.stream.refusals import ResumeMissing
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens, SentState
from auricle.frontend.protocols.stream.start import parse_end, parse_start
from auricle.frontend.protocols.transcriptions.form import parse_form, read_form, take_upload
from auricle.frontend.recordings.uploads import B, CheckSize, Uploads
from auricle.frontend.transport.access.keys import ANYONE, ApiKey
from auricle.frontend.transport.access.limits import Clients
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
from benchmarks.hostile import in_process_calls
from benchmarks.hostile.case import Case
from benchmarks.hostile.generators.inside import COMPONENTS
from benchmarks.hostile.generators.listen import ASSEMBLYAI, TURNS
from benchmarks.hostile.generators.resumes import ANOTHERS, FRESH, STARTS, Resumption

_REQUESTS: dict[tuple[str, str], Any] = {
    ("processor", "admit"): AdmitSession,
    ("processor", "withdraw"): WithdrawAdmission,
    ("processor", "open"): OpenSession,
    ("processor", "push"): PushAudio,
    ("processor", "end"): EndAudio,
    ("encode_worker", "generate"): EncodeRequest,
    ("pd_worker", "generate"): DecodeRequest,
    ("translate_worker", "generate"): TranslateRequest,
    **{(name, "alive"): AskAlive | AskDescription for name in COMPONENTS},
}
_MAX_SEGMENT_SECONDS, _RECORDING_SECONDS = 20.0, 3_600.0
_APP = FastAPI()
_MOST_UPLOADED = 10_000_000


def told(case: Case) -> AuricleError | None:
    """Return the error that the case is answered with, or None."""
    try:
        _PARSERS[case.area](case.data)
    except AuricleError as error:
        return error
    return None


def _text(data: bytes) -> str:
    """What the server takes for a text message; it closes the connection itself otherwise."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRequest("not UTF-8") from None


def _starts(messages: list[bytes]) -> None:
    parse_start(_text(messages[0]))
    for message in messages[1:]:
        parse_end(_text(message))


_OTHER = ApiKey(name="other", sha256="0" * 64)
_SPOKEN = SentState(
    ResumePoint(1, 9_000, (7, 8, 9), "what was said", 4_000), 1_000, received=30_000
)


def _resumes(how: Resumption) -> None:
    tokens = ResumeTokens(Tokens(None, PURPOSE), seconds=120.0, model="demo")
    began = parse_start(json.dumps(STARTS[how.token]))
    binding = tokens.binding(_OTHER if how.token == ANOTHERS else ANYONE, began)
    told = SentState() if how.token == FRESH else _SPOKEN
    given = tokens.issue(binding, began.sample_rate, "sess_1", 640, None, told)
    start = parse_start(_text(how.first(given.token, given.from_sample)))
    if start.resume is None:
        raise ResumeMissing
    tokens.open(start.resume, tokens.binding(ANYONE, start), start.sample_rate)


def _event(message: bytes) -> None:
    event = events.parse_event(_text(message))
    if isinstance(event, events.SessionUpdate):
        SessionConfig().updated(event.session)
    elif isinstance(event, events.Append):
        PcmStream(24_000).push(event.audio)


def _form(data: dict[str, Any]) -> None:
    parse_form(_fields(data))


def _fields(data: dict[str, Any]) -> in_process_calls.Fields:
    """The fields of a form."""
    return asyncio.run(_read(data["content_type"], data["body"]))


async def _read(content_type: bytes, body: bytes) -> in_process_calls.Fields:
    async with _taken(content_type, body, read_form) as form:
        return (await take_upload(form)).fields


@asynccontextmanager
async def _taken(
    content_type: bytes, body: bytes, read: Callable[[Request, CheckSize], Awaitable[B]]
) -> AsyncIterator[B]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    def check_size(size: int) -> None:
        if size > _MOST_UPLOADED:
            raise BadRequest("too large")

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "headers": [(b"content-type", content_type), (b"content-length", b"%d" % len(body))],
        "app": _APP,
    }
    uploads, client = Uploads(FrontendSettings()), Clients().of(ANYONE)
    async with uploads.taken(scope, receive, client, check_size, read) as taken:
        yield taken


def _listen(data: dict[str, Any]) -> None:
    if "body" in data:
        parse_recording_options(data["query"])
        asyncio.run(_read_recording(data["content_type"], data["body"]))
    elif data["path"] == ASSEMBLYAI:
        options = parse_streaming_options(data["query"], FrontendSettings().min_silence_ms)
        _heard(data["sent"], lambda text: _assemblyai_message(options, text), 1)
    elif data["path"] == TURNS:
        parse_flux_options(data["query"], FrontendSettings().min_silence_ms)
        _heard(data["sent"], flux_messages.parse_message, 1)
    else:
        listen = parse_options(data["query"], most_channels=8)
        _heard(data["sent"], deepgram_messages.parse_message, listen.channels)


def _assemblyai_message(options: StreamingOptions, text: str) -> None:
    if isinstance(assemblyai_messages.parse_message(text), assemblyai_messages.UpdateConfiguration):
        options.updated(assemblyai_messages.parse_changes(text))


def _heard(sent: list[tuple[int, bytes]], parse: Callable[[str], Any], channels: int) -> None:
    interleaved = Deinterleaver(channels, sample_bytes=2)
    streams = [PcmStream(16_000) for _ in range(channels)]
    for opcode, payload in sent:
        if opcode == 1:
            parse(_text(payload))
        else:
            for stream, part in zip(streams, interleaved.split(payload), strict=True):
                stream.push(part)


async def _read_recording(content_type: bytes, body: bytes) -> None:
    async with _taken(content_type, body, read_body):
        pass


def _features(session: list[str | bytes]) -> None:
    asyncio.run(_ingested(session))


async def _ingested(session: list[str | bytes]) -> None:
    start, *packets, _ = session
    assert isinstance(start, str)
    ingest = FeatureIngest(parse_start(start).feature_dtype, _MAX_SEGMENT_SECONDS)
    for packet in packets:
        assert isinstance(packet, bytes)
        ingest.take(packet)
        while ingest.ready:
            await ingest.process()
    await ingest.end()


def _pcm(session: list[str | bytes]) -> None:
    start, *packets = session
    assert isinstance(start, str)
    wanted = parse_start(start)
    stream = PcmStream(wanted.sample_rate, wanted.encoding)
    for packet in packets:
        if isinstance(packet, bytes):
            stream.push(packet)
    stream.end()


def _container(data: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        for _ in read_recording(file, "x", RecordingLimits(_RECORDING_SECONDS)):
            pass


def _request(lie: Any) -> None:
    packed = msgspec.msgpack.encode(lie.message)
    try:
        msgspec.msgpack.decode(packed, type=_REQUESTS[lie.component, lie.endpoint])
    except msgspec.DecodeError as error:
        raise BadRequest(str(error)) from None


_PARSERS: dict[str, Callable[[Any], None]] = {
    "starts": _starts,
    "resumes": _resumes,
    "events": _event,
    "forms": _form,
    "features": _features,
    "pcm": _pcm,
    "requests": _request,
    "translate_requests": _request,
    "translations": partial(in_process_calls.translations, _text, _fields),
    "listen": _listen,
    "containers": _container,
    "telephones": partial(in_process_calls.telephones, _text),
    "wyoming": in_process_calls.wyoming,
    "rpc": in_process_calls.rpc,
}
AREAS_IN_PROCESS = tuple(_PARSERS)
