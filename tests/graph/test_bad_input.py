"""Bad clients get a clear error, their resources are freed, and other sessions are unaffected."""

import asyncio
import contextlib
import json

import numpy as np
import pytest
import websockets

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, Server, eventually

pytestmark = pytest.mark.end_to_end
START = json.dumps({"type": "start", "sample_rate": 16_000})
END = json.dumps({"type": "end"})
SECOND = bytes(2 * 16_000)


def connection(server: Server) -> websockets.connect:
    return websockets.connect(server.url.replace("http", "ws") + "/v1/audio/stream")


async def converse(server: Server, *messages: str | bytes) -> tuple[list[dict], int]:
    """Send messages; return all answers and the close code."""
    async with connection(server) as socket:
        answers = []
        with contextlib.suppress(websockets.ConnectionClosed):
            for message in messages:
                await socket.send(message)
        with contextlib.suppress(websockets.ConnectionClosedError):
            async for answer in socket:
                answers.append(json.loads(answer))
        return answers, socket.close_code or 0


WRONG = [
    ([SECOND], "binary audio before the start message"),
    ([END], "first message must be a JSON start"),
    (["{"], "first message must be a JSON start"),
    ([START, START], "start was sent twice"),
    ([START, "{}"], "expected binary audio or a JSON end"),
    ([json.dumps({"type": "start", "sample_rate": 16_000, "encoding": "mp3"})], "encoding"),
    ([json.dumps({"type": "start", "sample_rate": 7})], "a whole number from 4000 to 192000"),
    ([json.dumps({"type": "start", "sample_rate": 10**12})], "a whole number from 4000 to 192000"),
    (
        [json.dumps({"type": "start", "sample_rate": 16_000, "language": "Klingon"})],
        "language 'Klingon' is not supported; supported: en (English)",
    ),
    (
        [json.dumps({"type": "start", "sample_rate": 16_000, "languages": ["de", "fr"]})],
        "languages 'de, fr' are not supported; supported: en (English)",
    ),
    (
        [json.dumps({"type": "start", "sample_rate": 16_000, "languages": ["de"]})],
        "language 'de' is not supported; supported: en (English)",
    ),
    (
        [json.dumps({"type": "start", "sample_rate": 16_000, "language": "x" * 900_000})],
        "language has 900000 characters, at most 32 are allowed",
    ),
    (
        [json.dumps({"type": "start", "sample_rate": 16_000, "context": "a\ud800"})],
        "it is not valid JSON",
    ),
]


async def said(server: Server, name: str) -> str:
    """The text of a live session."""
    samples = recordings.samples(name)
    return str([e async for e in stream_file(server.url, samples, live=True)][-1]["text"])


async def test_nobody_else_notices(server: Server) -> None:
    """The text of a live session during all these errors is the same as without them."""
    alone = await said(server, "kitchen")
    bystander = asyncio.create_task(said(server, "kitchen"))
    while not bystander.done():
        for messages, _ in WRONG:
            await converse(server, *messages)
        await send_an_oversized_frame(server)
        await vanish(server)
    assert await bystander == alone


@pytest.mark.parametrize(("messages", "said"), WRONG)
async def test_a_wrong_message_ends_that_session_with_a_reason(
    server: Server, messages: list[str | bytes], said: str
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


async def test_what_comes_after_the_end_is_ignored(server: Server) -> None:
    answers, code = await converse(server, START, SECOND[:-1], END, SECOND, END, "nonsense")
    assert (answers[-1]["type"], code) == ("done", 1000)


async def test_a_few_samples_end_cleanly(server: Server) -> None:
    answers, code = await converse(server, START, SECOND[:100], END)
    assert (answers[-1]["type"], answers[-1]["text"], code) == ("done", "", 1000)


async def test_ten_seconds_of_silence_have_no_words(server: Server) -> None:
    answers, code = await converse(server, START, *[SECOND] * 10, END)
    assert (answers[-1]["type"], answers[-1]["text"], code) == ("done", "", 1000)


async def send_an_oversized_frame(server: Server) -> int | None:
    """Return the close code."""
    async with connection(server) as socket:
        await socket.send(START)
        with pytest.raises(websockets.ConnectionClosed):
            await socket.send(bytes(2 << 20))
            while True:
                await socket.recv()
        return socket.close_code


async def test_an_oversized_frame_is_refused(server: Server) -> None:
    assert await send_an_oversized_frame(server) == 1009


async def vanish(server: Server) -> None:
    """Abort the connection in the middle of a session, without a close frame."""
    socket = await connection(server)
    await socket.send(START)
    assert json.loads(await socket.recv())["type"] == "ready"
    noise = np.random.default_rng(0).integers(-3_000, 3_000, 30_000).astype("<i2")
    await socket.send(noise.tobytes())  # about two chunks, decoding has begun
    socket.transport.abort()


async def test_clients_that_connect_and_leave_at_once_keep_nobody_out(server: Server) -> None:
    """They outnumber the permitted sessions, and arrive faster than unused admissions expire."""
    for _ in range(100):
        async with connection(server):
            pass


async def test_a_client_that_vanishes_frees_its_session(server: Server) -> None:
    for _ in range(3):
        await vanish(server)
    await eventually(
        lambda: server.metric("Processor", "auricle_processor_sessions") == 0, seconds=60
    )
    await eventually(
        lambda: server.metric("PdWorker", "auricle_pd_worker_requests_in_flight") == 0, seconds=60
    )


async def test_health_models_and_metrics_answer(server: Server) -> None:
    import httpx

    async with httpx.AsyncClient(base_url=server.url, timeout=ANSWER_SECONDS) as client:
        assert (await client.get("/live")).json() == {"status": "live"}
        health = await client.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "ready")
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "demo"
        assert "auricle_frontend_sessions" in (await client.get("/metrics")).text
