"""The gRPC server's transport: keys, limits, gRPC errors, health and reflection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest
import trustme

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, WorkerUnavailable
from auricle.frontend.recordings.transcriber import (
    DecodedSeconds,
    Recording,
    RecordingSegment,
    Whole,
)
from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.grpc.incoming import Incoming, Method, incoming_of
from auricle.frontend.transport.grpc.schema import message
from auricle.frontend.transport.grpc.server import RpcServer
from tests.fakes.front import Front
from tests.fakes.kserve import Stream as Sequence
from tests.fakes.rpc import RIVA, audio, calling, details, ended, first, recording, stream, unary
from tests.waiting import until

pytestmark = pytest.mark.unit
CONFIG, RECOGNIZE = f"{RIVA}/GetRivaSpeechRecognitionConfig", f"{RIVA}/Recognize"
HEALTH = "grpc.health.v1.Health"
KSERVE = "inference.GRPCInferenceService"
DETAIL = "secret /path detail"
FAILURES = (RuntimeError(DETAIL), AuricleError(DETAIL), WorkerUnavailable(DETAIL))
TRANSCRIBE = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"


def served_models(answer: bytes) -> list[str]:
    response = message("nvidia.riva.asr.RivaSpeechRecognitionConfigResponse").FromString(answer)
    return [config.model_name for config in response.model_config]


def model(name: str) -> bytes:
    request = message("nvidia.riva.asr.RivaSpeechRecognitionConfigRequest")(model_name=name)
    data: bytes = request.SerializeToString()
    return data


async def failure(call: Any) -> tuple[str, str, Any]:
    """The error of a unary call: code, details and trailing metadata."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    error = failed.value
    return error.code().name, error.details() or "", error.trailing_metadata()


# ── who may call ────────────────────────────────────────────────────────────


async def test_the_served_models_are_named() -> None:
    async with calling(Front()) as channel:
        assert served_models(await unary(channel, CONFIG)) == ["demo"]
        assert served_models(await unary(channel, CONFIG, model("demo"))) == ["demo"]
        code, said, _ = await failure(unary(channel, CONFIG, model("x")))
    assert code == "NOT_FOUND"
    assert said == "the model 'x' does not exist; served here: demo"


async def test_a_key_opens_what_it_is_for() -> None:
    live, live_entry = new_key("live", scopes=("live",))
    other, other_entry = new_key("other", scopes=("recordings",))
    async with calling(Front([live_entry, other_entry])) as channel:
        assert (await failure(unary(channel, CONFIG)))[0] == "UNAUTHENTICATED"
        unknown = "wrong"
        assert (await failure(unary(channel, CONFIG, secret=unknown)))[0] == "UNAUTHENTICATED"
        assert (await ended(stream(channel)))[0] == "UNAUTHENTICATED"
        assert (await ended(stream(channel, other)))[0] == "PERMISSION_DENIED"
        code, said, _ = await failure(unary(channel, RECOGNIZE, recording(), live))
        assert code == "PERMISSION_DENIED"
        assert said == "this API key is not for recordings; its scopes: live"
        for secret in (live, other):
            assert served_models(await unary(channel, CONFIG, secret=secret)) == ["demo"]


async def test_a_session_ends_once_its_key_is_withdrawn_and_its_neighbour_goes_on() -> None:
    (secret, entry), (other_secret, other) = new_key("acme"), new_key("globex")
    front = Front([entry, other])
    async with asyncio.timeout(60), calling(front) as channel:
        ending, kept = stream(channel, secret), stream(channel, other_secret)
        for call in (ending, kept):
            await begin(call, front)
        front.access.replace([other])
        assert await ended(ending) == ("UNAUTHENTICATED", "this API key was withdrawn")
        assert not kept.done()
        kept.cancel()


async def test_no_key_comes_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret, entry = new_key("acme")
    for known in ([entry], []):
        front = Front(known)
        front.processors.failure = lambda: RuntimeError("out of order")
        async with asyncio.timeout(60), calling(front) as channel:
            call = stream(channel, secret)
            await ended_after(call, first(model=secret))
            await ended_after(stream(channel, secret), first(), audio())
            await failure(unary(channel, CONFIG, model(secret)))
            await failure(unary(channel, RECOGNIZE, recording(model=secret), secret))
    logged = [logging.Formatter().format(record) for record in caplog.records]
    assert [line for line in logged if "refused" in line or "ended" in line]
    assert not [line for line in logged if secret in line]


async def begin(call: Any, front: Front) -> None:
    """Send the first messages of a live call, and wait until a processor has its session."""
    for data in (first(), audio()):
        await call.write(data)
    await front.processors.opened.acquire()


async def ended_after(call: Any, *messages: bytes) -> tuple[str, str]:
    """The end of a call whose client sends messages, unless the server rejects it before."""
    with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
        for data in messages:
            await call.write(data)
    return await ended(call)


def test_a_trusted_proxy_says_whom_a_call_comes_from() -> None:
    (proxy,) = FrontendSettings(trusted_proxies=("10.0.0.0/8",)).trusted_proxies
    metadata = (("x-forwarded-for", "1.1.1.1, 2.2.2.2, 10.0.0.9"), ("x-bin", b"\xff"))

    def behind(host: str) -> Incoming:
        return incoming_of(cast(Any, SimpleNamespace(peer=(host, 5))), metadata, [proxy])

    assert behind("10.0.0.1").peer == ("2.2.2.2", 0)
    assert behind("3.3.3.3").peer == ("3.3.3.3", 5)
    assert behind("3.3.3.3").metadata == {"x-forwarded-for": metadata[0][1]}


# ── limits ──────────────────────────────────────────────────────────────────


async def test_a_full_server_says_when_to_come_again() -> None:
    front = Front(max_sessions=1)
    async with asyncio.timeout(60), calling(front) as channel:
        running = stream(channel)
        await begin(running, front)
        refused = stream(channel)
        assert await ended(refused) == ("RESOURCE_EXHAUSTED", "all 1 sessions are in use")
        metadata = await refused.trailing_metadata()
        info, seconds = details(metadata)
        assert (info.reason, info.domain, seconds) == ("overloaded", "auricle", 5)
        assert dict(metadata)["retry-after"] == "5"
        running.cancel()
        await until(lambda: front.frontend.admission.open == 0)


async def test_a_server_that_shuts_down_is_unavailable() -> None:
    front = Front()
    async with asyncio.timeout(60), calling(front) as channel:
        running = stream(channel)
        await begin(running, front)
        front.frontend.admission.begin_drain(0.0)
        assert (await ended(stream(channel)))[0] == "UNAVAILABLE"
        code, _, _ = await failure(unary(channel, RECOGNIZE, recording()))
        assert code == "UNAVAILABLE"
        running.cancel()


async def test_one_address_makes_so_many_calls_a_second() -> None:
    async with calling(Front(), rate=1.0) as channel:
        for _ in range(2):
            await unary(channel, CONFIG)
        code, said, _ = await failure(unary(channel, CONFIG))
        assert (code, said) == ("RESOURCE_EXHAUSTED", "rate limit exceeded: 1 requests per second")
        await unary(channel, f"{HEALTH}/Check")  # probes are always answered


async def test_a_message_has_a_size() -> None:
    async with calling(Front(grpc_max_message_bytes=65_536)) as channel:
        code, _, _ = await failure(unary(channel, RECOGNIZE, recording(bytes(100_000))))
        assert code == "RESOURCE_EXHAUSTED"
        await unary(channel, CONFIG)  # the connection still works


# ── errors ──────────────────────────────────────────────────────────────────


async def test_what_is_wrong_is_named() -> None:
    async with asyncio.timeout(60), calling(Front()) as channel:
        call = stream(channel)
        code, said = await ended_after(call, first(profanity_filter=True))
        assert code == "INVALID_ARGUMENT"
        assert said == "profanity_filter is not supported: the model transcribes verbatim"
        info, seconds = details(await call.trailing_metadata())
        assert (info.reason, seconds) == ("unsupported_value", None)
        assert dict(info.metadata) == {"param": "profanity_filter"}
        for method in (RECOGNIZE, CONFIG, f"{HEALTH}/Check"):
            code, said, _ = await failure(unary(channel, method, b"\xff\xff"))
            assert (code, said.startswith("the message is not a valid ")) == (
                "INVALID_ARGUMENT",
                True,
            )
        assert (await failure(unary(channel, f"{RIVA}/Nothing")))[0] == "UNIMPLEMENTED"


@pytest.mark.parametrize("error", FAILURES)
@pytest.mark.parametrize("when", ["failure", "refused_at"])
async def test_a_session_that_fails_says_nothing_of_why(
    error: Exception, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    front = Front()
    setattr(front.processors, when, lambda: error)
    async with asyncio.timeout(60), calling(front) as channel:
        call = stream(channel)
        code, said = await ended_after(call, first(), audio())
        assert code in ("INTERNAL", "UNAVAILABLE")
        assert "secret" not in said + str(await call.trailing_metadata())
    formatter = logging.Formatter("%(message)s")
    assert "secret" in "\n".join(formatter.format(record) for record in caplog.records)


@pytest.mark.parametrize("error", FAILURES)
async def test_a_sequence_that_fails_says_nothing_of_why(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    front = Front()
    front.processors.failure = lambda: error
    async with asyncio.timeout(60), calling(front) as channel:
        sequence = Sequence(channel)
        await sequence.send(bytes(64), sequence_id=7, sequence_start=True)
        told = (await sequence.answers())[-1]
    assert told.infer_response.parameters["code"].string_param in ("internal", "unavailable")
    assert told.error_message and "secret" not in str(told)
    formatter = logging.Formatter("%(message)s")
    assert "secret" in "\n".join(formatter.format(record) for record in caplog.records)


# ── recordings ──────────────────────────────────────────────────────────────


async def test_a_recording_is_transcribed_and_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[Recording, bytes]] = []

    async def transcribe(_: object, given: Recording) -> AsyncGenerator[Any, None]:
        heard.append((given, given.path.read_bytes()))
        yield DecodedSeconds(60.0)
        yield RecordingSegment("ten green", 0, 16_000, "English")
        yield RecordingSegment("bottles", 16_000, 32_000, "English")
        yield Whole(60.0)

    monkeypatch.setattr(TRANSCRIBE, transcribe)
    secret, entry = new_key("acme")
    front = Front([entry.model_copy(update={"audio_minutes_per_minute": 0.5})])
    async with asyncio.timeout(60), calling(front) as channel:
        samples = recording(b"\1\2\3\4", encoding=1, sample_rate_hertz=8_000, model="demo")
        answer = await unary(channel, RECOGNIZE, samples, secret)
        response = message("nvidia.riva.asr.RecognizeResponse").FromString(answer)
        assert [r.alternatives[0].transcript for r in response.results] == [
            "ten green ",
            "bottles ",
        ]
        assert [r.audio_processed for r in response.results] == [1.0, 2.0]
        (given, data) = heard[0]
        assert (given.tenant, given.owner) == ("acme", "acme")
        assert data.startswith(b"RIFF") and data.endswith(b"\1\2\3\4")
        code, said, _ = await failure(unary(channel, RECOGNIZE, samples, secret))
        assert (code, "has used its 0.5 minutes" in said) == ("RESOURCE_EXHAUSTED", True)


@pytest.mark.parametrize("error", FAILURES)
async def test_a_recording_that_fails_says_nothing_of_why(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def transcribe(*_: object) -> AsyncGenerator[Any, None]:
        raise error
        yield

    monkeypatch.setattr(TRANSCRIBE, transcribe)
    async with asyncio.timeout(60), calling(Front()) as channel:
        code, said, metadata = await failure(unary(channel, RECOGNIZE, recording()))
    assert code in ("INTERNAL", "UNAVAILABLE")
    assert "secret" not in said + str(metadata)
    assert "recording rec_" in caplog.text


# ── health, reflection, TLS ─────────────────────────────────────────────────


def health(service: str = "") -> bytes:
    data: bytes = message(f"{HEALTH}CheckRequest")(service=service).SerializeToString()
    return data


def serving(answer: bytes) -> str:
    response = message(f"{HEALTH}CheckResponse")
    status = response.FromString(answer).status
    return str(response.ServingStatus.Name(status))


async def test_health_is_that_of_the_processors() -> None:
    front = Front([])
    found: list[int] = []

    async def instances() -> list[int]:
        return found

    front.processors.instances = instances  # type: ignore[method-assign]
    async with asyncio.timeout(60), calling(front) as channel:
        for service in ("", RIVA, HEALTH):
            assert serving(await unary(channel, f"{HEALTH}/Check", health(service))) == (
                "NOT_SERVING"
            )
        watching = channel.unary_stream(f"/{HEALTH}/Watch")(health(RIVA))
        assert serving(await watching.read()) == "NOT_SERVING"
        found.append(1)
        assert serving(await watching.read()) == "SERVING"
        assert serving(await unary(channel, f"{HEALTH}/Check", health())) == "SERVING"
        assert (await failure(unary(channel, f"{HEALTH}/Check", health("x"))))[0] == "NOT_FOUND"
        unknown = channel.unary_stream(f"/{HEALTH}/Watch")(health("x"))
        assert serving(await unknown.read()) == "SERVICE_UNKNOWN"
        watching.cancel()
        unknown.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_tools_can_ask_what_there_is(version: str) -> None:
    package = "grpc.reflection.v1"
    method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    async with asyncio.timeout(60), calling(Front([])) as channel:
        call = channel.stream_stream(method)()

        async def answer(**question: str) -> Any:
            request = message(f"{package}.ServerReflectionRequest")(**question)
            await call.write(request.SerializeToString())
            return message(f"{package}.ServerReflectionResponse").FromString(await call.read())

        listed = await answer(list_services="")
        names = [service.name for service in listed.list_services_response.service]
        assert sorted(names) == [HEALTH, f"{package}.ServerReflection", KSERVE, RIVA]
        described = await answer(file_containing_symbol=RIVA)
        files = described.file_descriptor_response.file_descriptor_proto
        assert len(files) == 3  # including its imports
        named = await answer(file_by_filename="riva/proto/riva_audio.proto")
        assert named.file_descriptor_response.file_descriptor_proto[0] in files
        unknown = await answer(file_containing_symbol="x.Y")
        assert unknown.error_response.error_code == 5
        other = await answer(all_extension_numbers_of_type="x.Y")
        assert other.error_response.error_code == 5
        await call.done_writing()
        assert await ended(call) == ("OK", "")


async def test_with_a_certificate_it_speaks_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    front = Front(tls_certificate=certificate, tls_key=key)
    async with asyncio.timeout(60), calling(front, credentials=trusted) as channel:
        assert served_models(await unary(channel, CONFIG)) == ["demo"]


async def test_without_a_port_there_is_no_server() -> None:
    async with calling(Front()) as channel:
        await unary(channel, CONFIG)
    server = RpcServer(FrontendSettings(), *([_Nothing()] * 4))  # type: ignore[arg-type]
    await server.open()
    assert server.port is None
    await server.close()


async def test_a_client_that_leaves_while_a_status_is_sent_is_no_failure_of_the_server() -> None:
    class Gone:
        def invocation_metadata(self) -> tuple[()]:
            return ()

        async def abort(self, *_: object) -> None:
            raise grpc.aio.InternalError("a batch failed")

    async def refused(_incoming: Incoming, _context: object) -> bytes:
        raise AuricleError("no")

    server = RpcServer(FrontendSettings(), *([_Nothing()] * 4))  # type: ignore[arg-type]
    call = SimpleNamespace(peer=("127.0.0.1", 5), wait=lambda *_: None)
    gate = SimpleNamespace(call_of=lambda _metadata: call)
    handler = server._handler(Method(refused), cast(Any, gate), limited=False)
    with pytest.raises(asyncio.CancelledError):
        await handler.stream_unary(None, Gone())


class _Nothing:
    draining = False
    readiness = None
    rpc_methods: dict[str, Any] = {}  # noqa: RUF012


async def test_a_port_that_is_taken_is_named() -> None:
    async def elsewhere(reader: object, writer: asyncio.StreamWriter) -> None:
        writer.close()

    taken = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    async with taken:
        port = taken.sockets[0].getsockname()[1]
        settings = FrontendSettings(grpc_port=port)
        server = RpcServer(settings, *([_Nothing()] * 4))  # type: ignore[arg-type]
        with pytest.raises(SystemExit, match=f"cannot listen on 127.0.0.1:{port}"):
            await server.open()
