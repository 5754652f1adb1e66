"""Bad clients get a clear error, their resources are freed, and nobody else notices."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import numpy as np
import pytest
import websockets

from auricle.client.stream import stream_file
from tests import recordings
from tests.server import Server, eventually

pytestmark = pytest.mark.end_to_end
START = json.dumps({"type": "start", "sample_rate": 16_000})
END = json.dumps({"type": "end"})
SECOND = bytes(2 * 16_000)


@contextlib.asynccontextmanager
async def connection(server: Server) -> AsyncIterator[websockets.ClientConnection]:
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    async with websockets.connect(address) as socket:
        yield socket


async def converse(server: Server, *messages: str | bytes) -> tuple[list[dict], int]:
    """Send messages, return all answers and the close code."""
    async with connection(server) as socket:
        answers = []
        with contextlib.suppress(websockets.ConnectionClosed):
            for message in messages:
                await socket.send(message)
        with contextlib.suppress(websockets.ConnectionClosedError):
            async for answer in socket:
                answers.append(json.loads(answer))
        return answers, socket.close_code or 0


@pytest.fixture
async def bystander(server: Server) -> AsyncIterator[None]:
    """A live session beside the bad one, which must come out as it does alone."""

    async def transcribe() -> str:
        samples = recordings.samples("hello")
        return [e async for e in stream_file(server.url, samples, live=True)][-1]["text"]

    task = asyncio.create_task(transcribe())
    yield
    assert await task == await transcribe()


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([SECOND], "binary audio before the start message"),
        ([END], "first message must be a JSON start"),
        (["{"], "first message must be a JSON start"),
        ([START, START], "start was sent twice"),
        ([START, "{}"], "expected binary audio or a JSON end"),
        ([START, SECOND[:-1], END], "odd number of bytes"),
        ([START, SECOND, END, SECOND], "nothing may follow the end"),
        ([json.dumps({"type": "start", "sample_rate": 16_000, "encoding": "mp3"})], "encoding"),
        ([json.dumps({"type": "start", "sample_rate": 7})], "outside 4000 to 192000 Hz"),
        ([json.dumps({"type": "start", "sample_rate": 10**12})], "outside 4000 to 192000 Hz"),
        (
            [json.dumps({"type": "start", "sample_rate": 16_000, "language": "Klingon"})],
            "language 'Klingon' is not supported; supported: English",
        ),
    ],
)
async def test_a_wrong_message_ends_that_session_with_a_reason(
    server: Server, bystander: None, messages: list[str | bytes], said: str
) -> None:
    answers, code = await converse(server, *messages)
    assert answers[-1]["type"] == "error"
    assert said in answers[-1]["message"]
    assert code == 1008


async def test_a_session_without_audio_ends_cleanly(server: Server) -> None:
    answers, code = await converse(server, START, END)
    assert [a["type"] for a in answers] == ["ready", "done"]
    assert answers[-1]["text"] == ""
    assert code == 1000


async def test_a_few_samples_end_cleanly(server: Server) -> None:
    answers, code = await converse(server, START, SECOND[:100], END)
    assert (answers[-1]["type"], answers[-1]["text"], code) == ("done", "", 1000)


async def test_ten_seconds_of_silence_have_no_words(server: Server) -> None:
    answers, code = await converse(server, START, *[SECOND] * 10, END)
    assert (answers[-1]["type"], answers[-1]["text"], code) == ("done", "", 1000)


async def test_an_oversized_frame_is_refused(server: Server, bystander: None) -> None:
    async with connection(server) as socket:
        await socket.send(START)
        with pytest.raises(websockets.ConnectionClosed):
            await socket.send(bytes(2 << 20))
            while True:
                await socket.recv()
        assert socket.close_code == 1009


async def test_a_client_that_vanishes_frees_its_session(server: Server, bystander: None) -> None:
    before = server.metric("Processor", "auricle_processor_sessions")
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    socket = await websockets.connect(address)
    await socket.send(START)
    assert json.loads(await socket.recv())["type"] == "ready"
    noise = np.random.default_rng(0).integers(-3_000, 3_000, 30_000).astype("<i2")
    await socket.send(noise.tobytes())  # about two chunks, decoding has begun
    socket.transport.abort()  # no close frame
    await eventually(
        lambda: server.metric("Processor", "auricle_processor_sessions") <= before, seconds=20
    )
    assert server.metric("PdWorker", "auricle_pd_worker_requests_in_flight") <= 1  # the bystander


async def test_health_models_and_metrics_answer(server: Server) -> None:
    import httpx

    async with httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/live")).json() == {"status": "live"}
        health = await client.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "ready")
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "demo"
        assert "auricle_frontend_sessions" in (await client.get("/metrics")).text
