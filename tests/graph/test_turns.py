"""Turns found by the turn model, on the real graph."""

from __future__ import annotations

import base64
import json
from typing import Any

import jiwer
import numpy as np
import pytest
import websockets

from auricle_testing import recordings
from auricle_testing.server import Server

pytestmark = pytest.mark.end_to_end
NAME = "kitchen"
Event = dict[str, Any]


def pcm() -> bytes:
    spoken = (recordings.samples(NAME) * 32767).astype("<i2")
    return np.concatenate([spoken, np.zeros(9 * 16_000, "<i2")]).tobytes()


async def streamed(server: Server, packet: int) -> list[Event]:
    """Send the audio as fast as the server accepts it; each segment is decoded once."""
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    start = {"endpointing": {"eagerness": "low"}, "partials": False, "sample_rate": 16_000}
    async with websockets.connect(address, max_size=None) as socket:
        await socket.send(json.dumps({"type": "start", **start}))
        data = pcm()
        for at in range(0, len(data), packet):
            await socket.send(data[at : at + packet])
        await socket.send('{"type": "end"}')
        events: list[Event] = []
        while not events or events[-1]["type"] not in {"done", "error"}:
            event = json.loads(await socket.recv())
            event.pop("resume", None)
            events.append(event)
        return events


@pytest.mark.timeout(300)
async def test_the_same_turns_and_text_however_the_audio_is_cut(server: Server) -> None:
    often, seldom = await streamed(server, 1_234), await streamed(server, 400_000)

    def found(events: list[Event], kinds: tuple[str, ...]) -> list[Event]:
        return [event for event in events if event["type"].startswith(kinds)]

    marks = found(often, ("speech_", "turn_"))
    assert marks == found(seldom, ("speech_", "turn_"))
    assert {"turn_paused", "turn_resumed"} <= {event["type"] for event in marks}
    assert all(0 <= event["probability"] < 0.7 for event in found(often, ("turn_paused",)))
    assert found(often, ("final",)) == found(seldom, ("final",))
    assert jiwer.wer(recordings.words(NAME), often[-1]["text"]) <= 0.25


@pytest.mark.timeout(300)
async def test_openais_semantic_vad_ends_turns(server: Server) -> None:
    address = server.url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    given = {
        "format": {"type": "audio/pcm", "rate": 16_000},
        "turn_detection": {"type": "semantic_vad", "eagerness": "high"},
    }
    async with websockets.connect(address, max_size=None) as socket:

        async def until(kind: str) -> Event:
            while (event := json.loads(await socket.recv()))["type"] != kind:
                assert event["type"] != "error", event
            return dict(event)

        await socket.send(
            json.dumps({"type": "session.update", "session": {"audio": {"input": given}}})
        )
        updated = await until("session.updated")
        described = updated["session"]["audio"]["input"]["turn_detection"]
        assert described == {"type": "semantic_vad", "eagerness": "high"}
        data = pcm()
        for at in range(0, len(data), 100_000):
            audio = base64.b64encode(data[at : at + 100_000]).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        stopped = await until("input_audio_buffer.speech_stopped")
        completed = await until("conversation.item.input_audio_transcription.completed")
        assert completed["item_id"] == stopped["item_id"]
        assert completed["transcript"]
