"""Clients receive our own messages; exceptions' texts are only in the log, with the session."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import websockets
from prometheus_client import CollectorRegistry

from auricle.core.errors import (
    AuricleError,
    WindowsMissing,
    WorkerUnavailable,
    classes_by_code,
    from_code,
)
from auricle.dynamo.handling import Route, handler
from auricle.dynamo.refusals import Refusals
from auricle.dynamo.remote import RemoteEndpoint
from auricle.dynamo.secrets import Secrets
from auricle.dynamo.signing import Signer, Verifier
from auricle.dynamo.wire import encoded, from_wire, sealed_to_wire
from auricle.frontend.protocols.realtime.socket import RealtimeWorker
from auricle.frontend.recordings.transcriber import RecordingSegment, Whole
from auricle.protocol.control import Refusal
from auricle.protocol.sessions import AdmitSession, Admitted, Failed
from tests.fakes.front import START, Front, last_words, refused
from tests.fakes.workers import GRID, ScriptedWorkers, counting, noise, session

pytestmark = pytest.mark.unit
DETAIL = "secret /path detail"
FOREIGN = (RuntimeError(DETAIL), OSError(2, "secret", "/path"), KeyError("secret"))
INTERNAL = (AuricleError(DETAIL), WorkerUnavailable(DETAIL), WindowsMissing(("k",), DETAIL))
LISTEN = tuple(f"/v{n}/listen?encoding=linear16&sample_rate=16000" for n in (1, 2))
ASSEMBLYAI = "/v3/ws?sample_rate=16000"
WAYS = ("/v1/audio/stream", "/v1/realtime", "/v1/vapi", *LISTEN, ASSEMBLYAI)


def log_tells(caplog: pytest.LogCaptureFixture) -> str:
    """The whole log, including tracebacks."""
    formatter = logging.Formatter("%(message)s")
    return "\n".join(formatter.format(record) for record in caplog.records)


# ── errors ──────────────────────────────────────────────────────────────────


def test_errors_of_the_inside_are_told_in_general_words() -> None:
    ours = {code for code, kind in classes_by_code().items() if kind.public_message is None}
    assert ours == {
        *("bad_request", "protocol", "unknown_session", "unsupported_value", "model_not_found"),
        *("undecodable_audio", "audio_too_long", "too_large", "too_costly", "too_slow"),
        *("invalid_api_key", "forbidden", "rate_limited", "overloaded", "deadline", "storage_full"),
        *("resume_malformed", "resume_expired", "resume_forged", "resume_other_client"),
        *("resume_other_options", "resume_position", "resume_missing", "resume_off"),
        *("resume_taken_over", "no_audio", "unknown_host", "unknown_path"),
        *("upgrade_required", "no_jobs", "job_not_found", "job_not_done", "job_failed"),
    }
    for code in classes_by_code().keys() - ours:
        assert "secret" not in from_code(code, DETAIL).for_client
    assert "secret" not in from_code("unheard_of", DETAIL).for_client


# ── between processes ───────────────────────────────────────────────────────


@pytest.mark.parametrize("error", FOREIGN)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_worker_that_fails_tells_its_caller_no_more_than_that(
    error: Exception, streamed: bool, caplog: pytest.LogCaptureFixture, secrets: Secrets
) -> None:
    async def once(_request: Any) -> Admitted:
        raise error

    async def many(_request: Any) -> AsyncGenerator[Admitted, None]:
        yield Admitted()
        raise error

    kind = {"streamed": many} if streamed else {"unary": once, "brief": True}
    route = Route("admit", AdmitSession, **kind)  # type: ignore[arg-type]
    request = encoded(AdmitSession("tenant", "sess_1"))
    refusal = from_wire((await answers(route, request, secrets))[-1], Refusal)
    assert refusal.code == "internal"
    assert "secret" not in refusal.message
    assert "secret" in log_tells(caplog)


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    path = tmp_path / "secret"
    path.write_text("s" * 64)
    path.chmod(0o600)
    return Secrets(path, "Common.secret_file")


async def answers(route: Route, request: bytes, secrets: Secrets) -> list[Any]:
    """The endpoint's replies to a request from its own deployment."""
    receiver = "auricle.processor.admit/1"
    handle = handler(route, Verifier(secrets, receiver), Refusals(CollectorRegistry()))
    message = sealed_to_wire(Signer(secrets).seal(request, receiver))
    return [reply async for reply in handle(message, Stopped())]


class Stopped:
    """Dynamo's context of a request that is never cancelled."""

    async def async_killed_or_stopped(self) -> bool:
        await asyncio.Event().wait()
        return True

    def is_stopped(self) -> bool:
        return False


async def test_a_message_that_does_not_fit_is_described_in_the_log_only(
    caplog: pytest.LogCaptureFixture, secrets: Secrets
) -> None:
    route = Route("admit", AdmitSession, unary=None)
    request = msgspec.msgpack.encode({"secret": 1, "type": "AdmitSession"})
    (reply,) = await answers(route, request, secrets)
    assert from_wire(reply, Refusal).message == "malformed AdmitSession"
    assert "tenant" in caplog.text


class Broken:
    """Dynamo's endpoint and its client, with a failing transport."""

    async def client(self) -> Broken:
        return self

    def instance_ids(self) -> list[int]:
        return [1]

    async def direct(self, *_: object, **__: object) -> None:
        raise RuntimeError(f"Unavailable: tcp://10.0.0.7 {DETAIL}")


async def test_the_transports_words_stay_in_the_log(
    caplog: pytest.LogCaptureFixture, secrets: Secrets
) -> None:
    endpoint = RemoteEndpoint(Broken(), "auricle.processor.admit", Signer(secrets))
    message = AdmitSession("tenant", "sess_1")
    with pytest.raises(WorkerUnavailable) as failed:
        await endpoint.call(message, Admitted, 1, 1.0)
    with pytest.raises(WorkerUnavailable) as broken:
        await anext(endpoint.stream(message, Admitted, 1))
    for error in (failed.value, broken.value):
        assert "secret" not in str(error)
        assert "10.0.0.7" not in error.for_client
    assert caplog.text.count(DETAIL) == 2


@pytest.mark.parametrize("error", INTERNAL)
async def test_a_session_that_a_worker_fails_ends_in_our_words(error: AuricleError) -> None:
    workers = ScriptedWorkers(counting)
    workers.faults = [error] * 4
    subject = session(workers)
    events = subject.events()
    await anext(events)
    await subject.push(0, noise(GRID), 1.0, "endpoint")
    failed = await anext(events)
    assert isinstance(failed, Failed)
    assert "secret" not in from_code(failed.code, failed.message).for_client
    await events.aclose()


# ── WebSockets ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [*FOREIGN, *INTERNAL])
async def test_a_stream_that_fails_says_nothing_of_why(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front()
    front.processors.failure = lambda: error
    async with asyncio.timeout(60), front.serving(), front.connect("/v1/audio/stream") as socket:
        await socket.send(START)
        said, code, reason = await last_words(socket)
    assert code == 1011
    assert "secret" not in said + reason
    assert json.loads(said)["message"] == reason
    assert "secret" in log_tells(caplog)
    assert "session sess_" in caplog.text


@pytest.mark.parametrize("error", [*FOREIGN, *INTERNAL])
@pytest.mark.parametrize("path", LISTEN)
async def test_a_session_of_deepgrams_clients_that_fails_says_nothing_of_why(
    error: Exception, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front()
    front.processors.failure = lambda: error
    async with asyncio.timeout(60), front.serving(), front.connect(path) as socket:
        said, code, reason = await last_words(socket)
    assert code == 1011
    assert "secret" not in said + reason
    assert f'"description":"{reason}"' in said
    assert "secret" in log_tells(caplog)


@pytest.mark.parametrize("error", [*FOREIGN, *INTERNAL])
async def test_a_session_of_assemblyais_clients_that_fails_says_nothing_of_why(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front()
    front.processors.failure = lambda: error
    async with asyncio.timeout(60), front.serving(), front.connect(ASSEMBLYAI) as socket:
        said, code, reason = await last_words(socket)
    assert code == 3005
    assert "secret" not in said + reason
    assert f'"error_code":3005,"error":"{reason}"' in said
    assert "secret" in log_tells(caplog)


@pytest.mark.parametrize("error", FOREIGN)
@pytest.mark.parametrize("path", WAYS)
async def test_a_handshake_that_fails_says_nothing_of_why(
    error: Exception, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front()
    front.processors.refused_at = lambda: error
    async with asyncio.timeout(60), front.serving():
        code, said = await refused(front.connect(path))
    assert code == {ASSEMBLYAI: 3005, "/v1/audio/stream": 500, "/v1/vapi": 500}.get(path, 1011)
    assert "secret" not in said
    assert "secret" in log_tells(caplog)


async def test_a_realtime_session_that_fails_says_nothing_of_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(DETAIL)

    monkeypatch.setattr(
        "auricle.frontend.protocols.realtime.session.RealtimeSession._clear", broken
    )
    front = Front()
    async with asyncio.timeout(60), front.serving(), front.connect("/v1/realtime") as socket:
        await socket.recv()
        await socket.send('{"type": "input_audio_buffer.clear"}')
        said, code, reason = await last_words(socket)
    assert code == 1011
    assert "secret" not in said + reason
    assert DETAIL in log_tells(caplog)


async def test_nor_does_one_behind_dynamos_frontend(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(DETAIL)

    async def incoming() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "input_audio_buffer.clear"}

    monkeypatch.setattr(
        "auricle.frontend.protocols.realtime.session.RealtimeSession._clear", broken
    )
    events = [event async for event in RealtimeWorker(Front().frontend).serve(incoming())]
    assert events[-1]["type"] == "error"
    assert "secret" not in json.dumps(events)
    assert DETAIL in log_tells(caplog)


# ── HTTP ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("error", [*FOREIGN, *INTERNAL])
async def test_a_recording_that_fails_says_nothing_of_why(
    error: Exception,
    begun: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def transcribe(*_: object) -> AsyncGenerator[RecordingSegment | Whole, None]:
        if begun:
            yield RecordingSegment("ten green apples", 0, 16_000, "English")
        raise error

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    front = Front()
    async with asyncio.timeout(60), front.serving():
        answer = await front.post(stream="true")
    assert answer.status_code == (200 if begun else error_status(error))
    assert "secret" not in answer.text
    assert "secret" not in str(answer.headers)
    assert "secret" in log_tells(caplog)
    assert "recording rec_" in caplog.text


@pytest.mark.parametrize("error", [*FOREIGN, *INTERNAL])
async def test_a_recording_of_deepgrams_clients_that_fails_says_nothing_of_why(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def transcribe(*_: object) -> AsyncGenerator[RecordingSegment | Whole, None]:
        yield RecordingSegment("ten green apples", 0, 16_000, "English")
        raise error

    where = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"
    monkeypatch.setattr(where, transcribe)
    front = Front()
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{front.url}/v1/listen", content=b"RIFF")
    assert answer.status_code == error_status(error)
    assert "secret" not in answer.text + str(answer.headers)
    assert "secret" in log_tells(caplog)
    assert "recording rec_" in caplog.text


def error_status(error: Exception) -> int:
    return error.http_status if isinstance(error, AuricleError) else 500


@pytest.mark.parametrize("error", FOREIGN)
async def test_other_answers_say_nothing_either(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front()
    front.processors.refused_at = lambda: error
    async with asyncio.timeout(60), front.serving():
        answer = await front.get("/health")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "secret" not in answer.text
    assert "secret" in log_tells(caplog)


async def test_no_header_repeats_what_a_client_sent() -> None:
    front = Front(cors_origins=("https://pages.example",))
    sent = {
        "origin": "https://marker.example",
        "access-control-request-method": "MARKER",
        "access-control-request-headers": "marker",
        "x-request-id": "marker",
        "sec-websocket-protocol": "marker",
        "user-agent": "marker",
    }
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        for method, path in (
            ("GET", "/v1/marker"),
            ("POST", "/live"),
            ("GET", "/v1/models/marker"),
        ):
            answer = await client.request(method, front.url + path, headers=sent)
            assert "marker" not in str(answer.headers).lower()
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with front.connect("/v1/marker", subprotocols=["marker"]):
                pass
    assert "marker" not in str(refused.value.response.headers).lower()


@pytest.mark.parametrize("charset", ["idna", "punycode", "unicode_escape", "undefined", "utf-7"])
async def test_a_form_in_an_odd_charset_is_refused(charset: str) -> None:
    """Some raise errors of their own, one takes quadratic time, one yields lone surrogates."""
    body = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\n\\ud800\xff\r\n--x--\r\n'
    front = Front()
    async with asyncio.timeout(60), front.serving(), httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{front.url}/v1/audio/transcriptions",
            content=body,
            headers={"content-type": f"multipart/form-data; boundary=x; charset={charset}"},
        )
    assert answer.status_code == 400
    said = answer.json()["error"]["message"]
    assert said == f"the form's charset must be utf-8, not '{charset}'"
