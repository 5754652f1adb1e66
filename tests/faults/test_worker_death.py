"""A worker killed in the middle of a session costs time, not words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import jiwer
import numpy as np
import pytest
import websockets

from auricle.audio.pcm import to_int16
from tests import recordings
from tests.server import Server, eventually, serving

pytestmark = pytest.mark.end_to_end
PACKET = 1_600


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A graph of its own: these tests break it."""
    with serving() as running:
        yield running


async def live(server: Server, samples: np.ndarray, at_half: asyncio.Event) -> list[dict]:
    """Stream in real time; `at_half` is set half-way."""
    pcm = to_int16(samples)
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    events: list[dict] = []
    async with websockets.connect(address) as socket:
        await socket.send(json.dumps({"type": "start", "sample_rate": 16_000}))

        async def send() -> None:
            for start in range(0, len(pcm), PACKET):
                await asyncio.sleep(PACKET / 16_000)  # the speaker's pace, not a wait
                await socket.send(pcm[start : start + PACKET].tobytes())
                if start >= len(pcm) // 2:
                    at_half.set()
            await socket.send('{"type": "end"}')

        sending = asyncio.create_task(send())
        async with asyncio.timeout(90):
            async for message in socket:
                events.append(json.loads(message))
        await sending
    return events


@pytest.mark.parametrize("component", ["EncodeWorker", "Processor", "PdWorker"])
async def test_a_session_outlives_the_worker(server: Server, component: str) -> None:
    samples = recordings.samples("kitchen")
    undisturbed = (await live(server, samples, asyncio.Event()))[-1]["text"]
    at_half = asyncio.Event()
    session = asyncio.create_task(live(server, samples, at_half))
    await at_half.wait()
    victim = server.component(component)
    victim.kill()
    events = await session
    assert events[-1]["type"] == "done", events[-1]
    assert jiwer.wer(undisturbed, events[-1]["text"]) <= 0.2
    committed: dict[int, str] = {}
    for event in events:
        if event["type"] == "partial":
            assert event["committed"].startswith(committed.get(event["segment"], ""))
            committed[event["segment"]] = event["committed"]
        elif event["type"] == "final":
            assert event["text"].startswith(committed.get(event["segment"], ""))
    # The launcher has started another one in its place.
    await eventually(lambda: _replaced(server, component, victim.pid), seconds=60)


def _replaced(server: Server, component: str, old: int) -> bool:
    try:
        return server.component(component).pid != old
    except LookupError:
        return False
