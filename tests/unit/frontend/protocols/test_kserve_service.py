"""KServe's service: streams of sequences, recordings, and metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc.aio
import numpy as np
import pytest

from auricle.frontend.protocols.kserve.service import SERVICE
from auricle.frontend.recordings.transcriber import Recording, RecordingSegment, Whole
from auricle.frontend.transport.access.keys import new_key
from auricle.frontend.transport.grpc.schema import message
from tests.fakes.kserve import LOUD, QUIET, Service, Stream, is_final, request, text_of
from tests.fakes.rpc import ended, unary
from tests.waiting import until

pytestmark = pytest.mark.unit
SECONDS = 120
TRANSCRIBE = "auricle.frontend.recordings.transcriber.RecordingTranscriber.transcribe"


def finals(responses: list[Any]) -> list[str]:
    told = [r.infer_response for r in responses if not r.error_message]
    return [text_of(response) for response in told if is_final(response)]


async def asked(channel: grpc.aio.Channel, method: str, secret: str | None = None, **f: Any) -> Any:
    kind = message(f"inference.{method}Request")
    answer = await unary(channel, f"{SERVICE}/{method}", kind(**f).SerializeToString(), secret)
    return message(f"inference.{method}Response").FromString(answer)


# ── streams ─────────────────────────────────────────────────────────────────


async def test_a_sequence_ends_with_its_text() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True, timeout=9)
        await stream.send(LOUD, sequence_id=7, sequence_end=True, fields={"id": "r2"})
        told = await stream.answers()
        await stream.call.done_writing()
        assert await ended(stream.call) == ("OK", "")
    assert finals(told) == ["word"]
    assert {text_of(r.infer_response) for r in told} == {"a b", "word"}
    last = told[-1].infer_response
    assert (last.id, last.model_name, last.parameters["sequence_id"].int64_param) == (
        "r2",
        "demo",
        7,
    )
    assert told[0].infer_response.parameters["warnings"].string_param == "timeout has no effect"
    assert service.ended() == {"done": 1.0}


async def test_text_that_may_change_comes_only_if_it_is_wanted() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        given = {"sequence_id": "a", "sequence_start": True, "partials": False, "outputs": ["TEXT"]}
        await stream.send(LOUD + QUIET + LOUD, **given)
        await stream.send(sequence_id="a", sequence_end=True, outputs=["TEXT"])
        told = await stream.answers()
    assert [text_of(r.infer_response) for r in told] == ["word", "word"]
    assert [len(r.infer_response.outputs) for r in told] == [1, 1]


async def test_a_stream_has_several_sequences_at_once_and_one_after_the_other() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        for _ in range(2):
            for name in (7, "seven"):
                await stream.send(LOUD, sequence_id=name, sequence_start=True)
            for name in (7, "seven"):
                await stream.send(LOUD, sequence_id=name, sequence_end=True)
            assert finals(await stream.answers(2)) == ["word", "word"]
        # A session is counted after its last answer was sent.
        await until(lambda: service.ended() == {"done": 4.0})


async def test_a_stream_that_ends_ends_its_sequences() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True)
        await stream.call.done_writing()
        assert finals(await stream.answers()) == ["word"]
        assert await ended(stream.call) == ("OK", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "sequence_id is missing: audio comes in sequences"),
        ({"sequence_id": 8}, "the sequence 8 has not begun: its first request has sequence_start"),
        ({"sequence_id": 8, "beam": 4}, "beam is not supported"),
        (
            {"sequence_id": 8, "sequence_start": True, "fields": {"model_name": "x"}},
            "the model 'x' does not exist; served here: demo",
        ),
        (
            {"sequence_id": 8, "sequence_start": True, "datatype": "INT8"},
            "datatype 'INT8' of AUDIO cannot be used",
        ),
    ],
)
async def test_what_is_wrong_is_told_and_the_stream_goes_on(
    given: dict[str, Any], said: str
) -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, **given)
        refused = await stream.read()
        await stream.send(LOUD, sequence_id=7, sequence_start=True, sequence_end=True)
        assert finals(await stream.answers()) == ["word"]
    assert refused.error_message.startswith(said)
    assert refused.infer_response.id == "r1"


async def test_audio_that_cannot_be_used_ends_its_sequence_which_may_start_anew() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True, partials=False)
        await stream.send(LOUD, sequence_id=7, shape=[1])
        heard, failed = await stream.answers()
        assert finals([heard]) == ["word"]
        await stream.send(LOUD, sequence_id=7)  # a failed sequence has no further response
        await stream.send(LOUD, sequence_id=7, sequence_start=True, sequence_end=True)
        assert finals(await stream.answers()) == ["word"]
    assert failed.error_message.startswith("shape [1] of AUDIO cannot be used")


async def test_requests_after_the_end_of_a_sequence_are_refused_and_its_text_still_comes() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True, partials=False)
        await stream.send(sequence_id=7, sequence_end=True)
        await stream.send(LOUD, sequence_id=7)
        await stream.send(sequence_id=7, sequence_end=True)
        said = [await stream.read() for _ in range(3)]
    assert [one.error_message.partition(":")[0] for one in said if one.error_message] == 2 * [
        "the sequence 7 has not begun"
    ]
    assert finals(said) == ["word"]


async def test_a_message_that_is_none_ends_the_stream() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True, partials=False)
        await stream.call.write(b"\xff\xff")
        code, said = await ended(stream.call)
        assert (code, said) == ("INVALID_ARGUMENT", "the message is not a valid ModelInferRequest")
        await until(lambda: service.ended() == {"client_gone": 1.0})


async def test_a_full_server_says_when_to_come_again() -> None:
    service = Service(None, max_sessions=1)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True, partials=False)
        await until(lambda: service.frontend.admission.open)
        await stream.send(LOUD, sequence_id=8, sequence_start=True)
        (refused,) = await stream.answers()
        assert refused.error_message == "all 1 sessions are in use; come again in 5 s"
        await stream.send(sequence_id=7, sequence_end=True)
        assert finals(await stream.answers()) == ["word"]


async def test_a_sequence_that_is_not_continued_ends_and_then_its_stream() -> None:
    service = Service(None, idle_timeout_seconds=0.05)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel)
        await stream.send(LOUD, sequence_id=7, sequence_start=True, partials=False)
        heard, failed = await stream.answers()
        assert finals([heard]) == ["word"]
        assert failed.error_message == "the next request of the sequence took longer than 0.05 s"
        assert (await ended(stream.call))[0] == "DEADLINE_EXCEEDED"


async def test_the_stream_of_a_withdrawn_key_ends() -> None:
    (secret, entry), (other_secret, other) = new_key("acme"), new_key("globex", scopes=("live",))
    service = Service([entry, other])
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        assert (await ended(Stream(channel).call))[0] == "UNAUTHENTICATED"
        streams = [Stream(channel, secret), Stream(channel, other_secret)]
        for number, stream in enumerate(streams):
            await stream.send(LOUD, sequence_id=7, sequence_start=True, partials=False)
            await until(lambda taken=number: service.frontend.admission.open > taken)
        service.access.replace([other])
        assert await ended(streams[0].call) == ("UNAUTHENTICATED", "this API key was withdrawn")
        await streams[1].send(sequence_id=7, sequence_end=True)
        assert finals(await streams[1].answers()) == ["word"]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await unary(channel, f"{SERVICE}/ModelInfer", b"", other_secret)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_stream_without_a_sequence_ends_with_its_key() -> None:
    (secret, entry), (_, other) = new_key("acme"), new_key("globex")
    service = Service([entry, other])
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        stream = Stream(channel, secret)
        await stream.send(LOUD, sequence_id=7)  # which has not begun
        assert "has not begun" in (await stream.read()).error_message
        service.access.replace([other])
        assert await ended(stream.call) == ("UNAUTHENTICATED", "this API key was withdrawn")


# ── recordings ──────────────────────────────────────────────────────────────


async def test_a_recording_is_a_file_or_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[tuple[Recording, bytes]] = []

    async def transcribe(_: object, given: Recording) -> AsyncGenerator[Any, None]:
        files.append((given, given.path.read_bytes()))
        yield RecordingSegment("ten green", 0, 16_000, "English")
        yield RecordingSegment("bottles", 16_000, 32_000, "English")
        yield Whole(2.0)

    monkeypatch.setattr(TRANSCRIBE, transcribe)
    floats = (np.frombuffer(LOUD, "<i2") / 32_768).astype("<f4").tobytes()
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        for given in (
            request(b"fLaC", datatype="BYTES", shape=[1], language="en"),
            request(LOUD, sample_rate=8_000),
            request(floats, datatype="FP32"),
        ):
            data = await unary(channel, f"{SERVICE}/ModelInfer", given.SerializeToString())
            answer = message("inference.ModelInferResponse").FromString(data)
            assert text_of(answer) == "ten green bottles"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            wrong = request(LOUD, sequence_id=7, sequence_start=True).SerializeToString()
            await unary(channel, f"{SERVICE}/ModelInfer", wrong)
    assert "ModelInfer takes a whole recording" in str(refused.value.details())
    (flac, eight, sixteen) = (data for _, data in files)
    assert flac == b"fLaC" and files[0][0].language == "en"
    for data, rate in ((eight, 8_000), (sixteen, 16_000)):
        assert data.startswith(b"RIFF") and data.endswith(LOUD)
        assert int.from_bytes(data[24:28], "little") == rate


# ── metadata ────────────────────────────────────────────────────────────────


async def test_it_says_whether_it_serves() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        for processors in (1, 0):
            service.processors = processors
            assert (await asked(channel, "ServerLive")).live
            assert (await asked(channel, "ServerReady")).ready == bool(processors)
            assert (await asked(channel, "ModelReady", name="demo")).ready == bool(processors)
        service.processors = 1
        assert not (await asked(channel, "ModelReady", name="x")).ready
        assert not (await asked(channel, "ModelReady", name="demo", version="2")).ready


async def test_it_says_what_it_serves() -> None:
    service = Service(None)
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        assert (await asked(channel, "ServerMetadata")).name == "auricle"
        model = await asked(channel, "ModelMetadata", name="demo")
        assert [(t.name, t.datatype, list(t.shape)) for t in model.inputs] == [
            ("AUDIO", "FP32", [-1])
        ]
        assert [(t.name, t.datatype) for t in model.outputs] == [
            ("TEXT", "BYTES"),
            ("IS_FINAL", "BOOL"),
        ]
        for given, said in (
            ({"name": "x"}, "the model 'x'"),
            ({"name": "demo", "version": "2"}, "version '2'"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asked(channel, "ModelMetadata", **given)
            assert str(refused.value.details()).startswith(said)


async def test_a_key_is_needed_for_all_but_probes() -> None:
    secret, entry = new_key("acme")
    service = Service([entry])
    async with asyncio.timeout(SECONDS), service.serving() as channel:
        assert (await asked(channel, "ServerReady")).ready
        assert (await asked(channel, "ModelReady", secret, name="demo")).ready
        for method in ("ServerMetadata", "ModelMetadata", "ModelReady"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asked(channel, method)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
