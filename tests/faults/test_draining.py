"""A draining process interrupts nothing: no session fails, no word is lost or duplicated."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal

import httpx
import jiwer
import numpy as np
import pytest
import soxr
import websockets

from auricle.client.stream import Event
from auricle_testing import recordings
from auricle_testing.launcher import Launcher
from auricle_testing.server import (
    READY_SECONDS,
    Server,
    eventually,
    frontend_beside,
)
from auricle_testing.transcripts import heard
from tests.faults.recordings import IN_WORK, transcribed
from tests.faults.sessions import check_words, replaced, spoken, until

pytestmark = pytest.mark.end_to_end
SESSIONS = 3
TIMES = 5  # the recording is still in progress when the frontend receives SIGTERM


@pytest.mark.deployment
@pytest.mark.parametrize("component", ["EncodeWorker", "PdWorker", "Processor"])
async def test_a_pool_shrinks_under_running_sessions(
    server: Server, undisturbed: str, component: str
) -> None:
    launcher = Launcher(server)
    launcher.scale(component, 2)
    await eventually(lambda: launcher.ready(component) == 2, READY_SECONDS)
    logged = len(server.log)
    started = [asyncio.Event() for _ in range(SESSIONS)]
    sessions = [asyncio.create_task(spoken(server, one)) for one in started]
    for one, session in zip(started, sessions, strict=True):
        await until(one, session)
    launcher.scale(component, 1)
    for events in await asyncio.gather(*sessions):
        check_words(undisturbed, heard(events))
    # It drained and ended by itself, and no caller had to retry.
    await eventually(lambda: _gone(server, component), seconds=60)
    said = server.log[logged:]
    assert any(f"{component}-2" in line for line in said)
    assert not [line for line in said if _tried_again(line)]
    assert not [line for line in said if "still held" in line]


def _tried_again(line: str) -> bool:
    """A retry for another reason than a process that hung for a moment on a busy machine."""
    again = "attempt" in line or "moves to another processor" in line
    return again and "does not answer" not in line


def _gone(server: Server, component: str) -> bool:
    names = [" ".join(p.cmdline()) for p in _alive(server)]
    return sum(f"component {component}" in name for name in names) == 1


def _alive(server: Server) -> list:
    found = []
    for process in server.processes():
        with contextlib.suppress(Exception):
            process.cmdline()
            found.append(process)
    return found


def test_the_launcher_says_what_would_be_right(server: Server) -> None:
    launcher = Launcher(server)
    assert "known: EncodeWorker" in launcher.refuses("Encoder", {"replicas": 1})
    assert "from 0 to" in launcher.refuses("PdWorker", {"replicas": -1})
    assert "replicas" in launcher.refuses("PdWorker", {"count": 1})


async def test_a_frontend_ends_sessions_between_segments_and_says_where_to_go_on(
    server: Server, undisturbed: str
) -> None:
    """The launcher starts a replacement at the same address."""
    started = asyncio.Event()
    session = asyncio.create_task(spoken(server, started))
    await until(started, session)
    frontend = server.component("Frontend")
    frontend.send_signal(signal.SIGTERM)
    check_words(undisturbed, heard(await session))
    assert not frontend.is_running()
    await eventually(lambda: replaced(server, "Frontend", frontend.pid), seconds=60)


async def test_a_frontend_tells_the_silent_and_finishes_recordings(server: Server) -> None:
    """Silent clients receive the notice too, and requests in progress receive their text."""
    address = server.url.replace("http", "ws")
    async with (
        websockets.connect(f"{address}/v1/audio/stream") as idle,
        websockets.connect(f"{address}/v1/realtime") as resting,
        httpx.AsyncClient(base_url=server.url, timeout=240) as client,
    ):
        await idle.send('{"type": "start", "sample_rate": 16000}')
        assert json.loads(await idle.recv())["type"] == "ready"
        await idle.send(bytes(16_000))  # half a second of silence
        assert json.loads(await resting.recv())["type"] == "session.created"
        long = np.concatenate([recordings.samples("market")] * TIMES)
        recording = asyncio.create_task(transcribed(client, long))
        await eventually(lambda: server.metric("Frontend", IN_WORK) == 1, seconds=60)
        frontend = server.component("Frontend")
        frontend.send_signal(signal.SIGTERM)
        async with asyncio.timeout(120):
            (going,) = await until_closed(idle)
            assert (going["type"], idle.close_code) == ("going_away", 1012)
            assert 0 <= going["resume_ms"] <= 500
            assert await until_closed(resting) == []
            assert resting.close_code == 1012
            assert str(resting.close_reason).endswith("audio up to 0 ms was transcribed")
        answer = await recording
        said = " ".join([recordings.words("market")] * TIMES)
        assert jiwer.wer(said, answer.json()["text"]) <= 0.25
    await eventually(lambda: replaced(server, "Frontend", frontend.pid), seconds=60)


async def test_a_frontend_cuts_an_open_turn_before_its_time_is_over(server: Server) -> None:
    with frontend_beside(server, "--Frontend.drain_seconds=30") as frontend:
        address = frontend.url.replace("http", "ws")
        async with websockets.connect(f"{address}/v1/realtime") as speaking:
            assert json.loads(await speaking.recv())["type"] == "session.created"
            await speak(speaking, "hello")  # without a pause, so that the turn stays open
            frontend.process.send_signal(signal.SIGTERM)
            events = await until_closed(speaking)
        assert speaking.close_code == 1012
        completed = [e for e in events if e["type"].endswith("transcription.completed")]
        assert jiwer.wer(recordings.words("hello"), completed[-1]["transcript"]) <= 0.34


async def until_closed(socket: websockets.ClientConnection) -> list[Event]:
    """The remaining messages; to the library, any close code but 1000 is an error."""
    received: list[Event] = []
    with contextlib.suppress(websockets.ConnectionClosedError):
        async for message in socket:
            received.append(json.loads(message))
    return received


async def speak(socket: websockets.ClientConnection, name: str) -> None:
    """Send audio until the turn is open."""
    pcm = soxr.resample(recordings.samples(name), 16_000, 24_000)
    for packet in np.array_split(np.round(pcm * 32767).astype("<i2"), 20):
        audio = base64.b64encode(packet.tobytes()).decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
    while "speech_started" not in json.loads(await socket.recv())["type"]:
        pass
