"""A pool without a worker: health and refusals name it, and it comes back."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import httpx
import pytest
import soundfile
import websockets

from auricle_testing import recordings
from auricle_testing.launcher import Launcher
from auricle_testing.server import ANSWER_SECONDS, READY_SECONDS, Server, eventually
from auricle_testing.transcripts import heard
from tests.faults.sessions import check_words, spoken

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
TOLD = "no pd_worker of this server is running; try again"
LIVE = ("/v1/audio/stream", "/v1/realtime", "/v1/listen?encoding=linear16&sample_rate=16000")


def health(server: Server) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{server.url}/health", timeout=ANSWER_SECONDS)
    return answer.status_code, answer.json()


def lives(server: Server) -> bool:
    return httpx.get(f"{server.url}/live", timeout=ANSWER_SECONDS).status_code == 200


async def refusal(server: Server, path: str) -> tuple[int, str]:
    """The status of a refused handshake or the close code, and the answer to the client."""
    try:
        async with websockets.connect(server.url.replace("http", "ws") + path) as socket:
            said = str(await socket.recv())
            await socket.wait_closed()
            return socket.close_code or 0, said
    except websockets.InvalidStatus as refused:
        return refused.response.status_code, (refused.response.body or b"").decode()


def recording(server: Server) -> httpx.Response:
    file = io.BytesIO()
    soundfile.write(file, recordings.samples("hello"), 16_000, format="WAV")
    files = {"file": ("hello.wav", file.getvalue())}
    address = f"{server.url}/v1/audio/transcriptions"
    return httpx.post(address, data={"model": "demo"}, files=files, timeout=ANSWER_SECONDS)


async def test_a_pool_without_a_worker_is_named_until_it_has_one(
    server: Server, undisturbed: str
) -> None:
    assert health(server) == (200, {"status": "ready", "processors": 1, "missing": []})
    launcher = Launcher(server)
    launcher.scale("PdWorker", 0)
    try:
        await eventually(lambda: health(server)[0] == 503, READY_SECONDS)
        assert health(server)[1] == {
            "status": "no pd_worker is running",
            "processors": 1,
            "missing": ["pd_worker"],
        }
        assert lives(server)
        assert server.metric("Frontend", "auricle_frontend_pool_missing", pool="pd_worker") == 1
        assert server.metric("Frontend", "auricle_frontend_pool_missing") == 1
        for path in LIVE:
            code, said = await refusal(server, path)
            assert (code, TOLD in said) == (503 if path == LIVE[0] else 1011, True)
        answer = await asyncio.to_thread(recording, server)
        assert (answer.status_code, json.loads(answer.text)["error"]) == (
            503,
            {"message": TOLD, "type": "server_error", "param": None, "code": "unavailable"},
        )
    finally:
        launcher.scale("PdWorker", 1)
    await eventually(lambda: health(server)[0] == 200, READY_SECONDS)
    check_words(undisturbed, heard(await spoken(server)))
