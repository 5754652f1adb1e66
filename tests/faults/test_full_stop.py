"""SIGTERM to `auricle serve`: requests in progress get their text, and all processes end in order.

The graph is gone afterwards, so this is the last test of the folder (see conftest.py).
"""

from __future__ import annotations

import asyncio
import json
import signal

import httpx
import jiwer
import numpy as np
import pytest
import websockets

from auricle.client.stream import Event
from auricle.core.aio import cancelled
from auricle_testing import recordings
from auricle_testing.server import STOP_SECONDS, Server, eventually
from tests.faults.recordings import IN_WORK, transcribed
from tests.faults.sessions import check_words

pytestmark = pytest.mark.end_to_end
PACKET = recordings.SAMPLE_RATE // 10
TIMES = 8  # the recording is still in progress when the graph receives SIGTERM


async def speak(socket: websockets.ClientConnection) -> None:
    """Send the recording in real time, repeatedly, until the server ends the session."""
    await socket.send(json.dumps({"type": "start", "sample_rate": recordings.SAMPLE_RATE}))
    pcm = np.round(np.tile(recordings.samples("kitchen"), 4) * 32767).astype("<i2")
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at in range(0, len(pcm), PACKET):
        await asyncio.sleep(began + at / recordings.SAMPLE_RATE - loop.time())
        await socket.send(pcm[at : at + PACKET].tobytes())


async def listen(socket: websockets.ClientConnection, events: list[Event]) -> None:
    """Collect the events until the server closes with another code than 1000."""
    with pytest.raises(websockets.ConnectionClosedError):
        async for message in socket:
            events.append(json.loads(message))


async def test_sessions_and_recordings_end_before_the_graph_does(
    server: Server, undisturbed: str
) -> None:
    url = server.url.replace("http", "ws") + "/v1/audio/stream"
    events: list[Event] = []
    async with (
        websockets.connect(url) as socket,
        httpx.AsyncClient(base_url=server.url, timeout=240) as client,
    ):
        speaking = asyncio.create_task(speak(socket))
        listening = asyncio.create_task(listen(socket, events))
        await eventually(lambda: any(e["type"] == "partial" for e in events), seconds=60)
        long = np.concatenate([recordings.samples("market")] * TIMES)
        recording = asyncio.create_task(transcribed(client, long))
        await eventually(lambda: server.metric("Frontend", IN_WORK) == 1, seconds=60)
        logged = len(server.log)
        server.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(240):
            await listening
            answer = await recording
        await cancelled([speaking])
    assert (events[-1]["type"], socket.close_code) == ("going_away", 1012)
    # It was cut between two segments, and has the text of all audio before the cut.
    text = " ".join(e["text"] for e in events if e["type"] == "final" and e["text"])
    assert text
    said = (undisturbed.split() * 4)[: len(text.split())]
    check_words(" ".join(said), text)
    assert answer.status_code == 200
    words = " ".join([recordings.words("market")] * TIMES)
    assert jiwer.wer(words, answer.json()["text"]) <= 0.25
    assert await asyncio.to_thread(server.process.wait, STOP_SECONDS) == 0
    server.last_words()
    log = server.log[logged:]
    assert not [line for line in log if "Traceback" in line or "still held" in line]
    stopped = [line for line in log if "stopping" in line]
    order = ["launcher", "Frontend", "Processor", "Worker"]
    positions = [min(n for n, line in enumerate(stopped) if name in line) for name in order]
    assert positions == sorted(positions)
