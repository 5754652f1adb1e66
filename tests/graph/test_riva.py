"""`nvidia.riva.asr.RivaSpeechRecognition` with the official client, unmodified."""

from __future__ import annotations

import asyncio
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import soundfile

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server

riva_client = pytest.importorskip("riva.client", reason="run make setup-dev")
import grpc  # noqa: E402
from riva.client.proto import (  # noqa: E402
    health_pb2,
    health_pb2_grpc,
    riva_asr_pb2,
)

pytestmark = pytest.mark.end_to_end
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINEAR_PCM = {"encoding": riva_client.AudioEncoding.LINEAR_PCM, "sample_rate_hertz": 16_000}
PACKET = 1_600  # samples
SECONDS = 120.0


@pytest.fixture(scope="module")
def address(grpc_address: str) -> str:
    """The address of the service."""
    return grpc_address


@pytest.fixture(scope="module")
def service(address: str) -> Any:
    return riva_client.ASRService(riva_client.Auth(uri=address))


def wav(name: str, folder: Path) -> Path:
    path = folder / f"{name}.wav"
    samples, rate = soundfile.read(recordings.path(name), dtype="int16")
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path


async def own_words(server: Server, name: str) -> str:
    samples = recordings.samples(name)
    events = [event async for event in stream_file(server.url, samples, live=False)]
    return str(events[-1]["text"])


def live(service: Any, path: Path, **options: Any) -> list[Any]:
    """The results of a WAV file sent in packets, including its header, as users do."""
    interim = options.pop("interim_results", False)
    config = riva_client.StreamingRecognitionConfig(
        config=riva_client.RecognitionConfig(**options), interim_results=interim
    )
    with riva_client.AudioChunkFileIterator(path, PACKET) as audio:
        responses = service.streaming_response_generator(audio, config)
        return [result for response in responses for result in response.results]


def text(results: Any) -> str:
    """The text as the client's own tools assemble it."""
    return "".join(result.alternatives[0].transcript for result in results).strip()


async def test_the_words_are_those_of_our_own_protocol(
    server: Server, service: Any, tmp_path: Path
) -> None:
    for name in ("hello", "station"):
        words, path = await own_words(server, name), wav(name, tmp_path)
        async with asyncio.timeout(SECONDS):
            results = await asyncio.to_thread(live, service, path)
            assert text(results) == words
            assert all(result.is_final for result in results)
            for audio, config in (
                (path.read_bytes(), {}),
                (recordings.path(name).read_bytes(), {}),
                (path.read_bytes()[44:], LINEAR_PCM),
            ):
                asked = riva_client.RecognitionConfig(**config)
                answer = await asyncio.to_thread(service.offline_recognize, audio, asked)
                assert text(answer.results) == words
        assert 0 < answer.results[-1].audio_processed <= len(recordings.samples(name)) / 16_000


async def test_text_comes_while_it_is_spoken(service: Any, tmp_path: Path) -> None:
    asked = {"language_code": "en-US", "verbatim_transcripts": True, "max_alternatives": 1}
    asked |= {"enable_word_time_offsets": True}
    async with asyncio.timeout(SECONDS):
        results = await asyncio.to_thread(
            lambda: live(service, wav("station", tmp_path), interim_results=True, **asked)
        )
    assert not results[0].is_final and results[0].alternatives[0].transcript
    assert results[-1].is_final and results[-1].stability == 1.0
    assert {round(r.stability, 1) for r in results if not r.is_final} <= {0.1, 0.9}
    seconds = len(recordings.samples("station")) / 16_000
    assert all(0 < result.audio_processed <= seconds for result in results)
    final = results[-1].alternatives[0]
    assert " ".join(word.word for word in final.words) == final.transcript.strip()
    times = [time for word in final.words for time in (word.start_time, word.end_time)]
    assert times == sorted(times) and times[-1] <= 1000 * seconds
    assert 0.0 < min(word.confidence for word in final.words) <= final.confidence <= 1.0


async def test_what_cannot_be_done_is_refused_by_name(service: Any, tmp_path: Path) -> None:
    path = wav("hello", tmp_path)
    with pytest.raises(grpc.RpcError) as refused:
        await asyncio.to_thread(live, service, path, profanity_filter=True)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details().startswith("profanity_filter is not supported")
    with pytest.raises(grpc.RpcError) as refused:
        asked = riva_client.RecognitionConfig(model="parakeet")
        await asyncio.to_thread(service.offline_recognize, b"RIFF", asked)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_the_client_learns_what_is_served(address: str, service: Any) -> None:
    async with asyncio.timeout(SECONDS):
        request = riva_asr_pb2.RivaSpeechRecognitionConfigRequest()
        answer = await asyncio.to_thread(service.stub.GetRivaSpeechRecognitionConfig, request)
        assert answer.model_config[0].model_name == "demo"
        health = health_pb2_grpc.HealthStub(service.auth.channel)
        answer = await asyncio.to_thread(health.Check, health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_the_example_in_the_docs_prints_the_words(
    server: Server, address: str, tmp_path: Path
) -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs/riva.md").read_text())
    names = {"riva": pytest.importorskip("riva"), "address": address}
    names["path"] = str(wav("hello", tmp_path))
    printed = io.StringIO()
    async with asyncio.timeout(SECONDS):
        with redirect_stdout(printed):
            await asyncio.to_thread(exec, example, names)
    assert " ".join(printed.getvalue().split()) == await own_words(server, "hello")
