"""Dynamo's own, unmodified frontend in front of our graph."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import jiwer
import numpy as np
import pytest
import websockets

from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, LIGHT_ENGINE, Server, free_port, serving

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
# It requires every field of its session types.
INPUT = {
    "format": {"type": "audio/pcm", "rate": 16_000},
    "transcription": {"model": "demo", "language": "en", "prompt": ""},
    "turn_detection": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
    },
}


@pytest.fixture(scope="module")
def dynamo() -> Iterator[Server]:
    with serving(
        f"--DynamoFrontend.port={free_port()}",
        *LIGHT_ENGINE,
        graph="graphs.dynamo_frontend:DynamoFrontend",
        config="configs/dynamo_frontend.yaml",
    ) as running:
        yield running


def test_it_lists_our_model(dynamo: Server) -> None:
    listed = httpx.get(f"{dynamo.url}/v1/models", timeout=ANSWER_SECONDS).json()["data"]
    assert [model["id"] for model in listed] == ["demo"]


async def transcribed(dynamo: Server, turn_detection: object, *last: dict[str, Any]) -> list[Any]:
    """Events of one turn of `hello`."""
    audio = np.concatenate([recordings.samples("hello"), np.zeros(16_000, np.float32)])
    pcm = (audio * 32767).astype("<i2").tobytes()
    address = dynamo.url.replace("http", "ws") + "/v1/realtime?model=demo"
    events: list[Any] = []
    async with websockets.connect(address) as socket, asyncio.timeout(60):
        given = {**INPUT, "turn_detection": turn_detection}
        session = {"type": "transcription", "audio": {"input": given}}
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        for start in range(0, len(pcm), 3_200):
            packet = base64.b64encode(pcm[start : start + 3_200]).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": packet}))
        for event in last:
            await socket.send(json.dumps(event))
        while not events or not events[-1]["type"].endswith("transcription.completed"):
            events.append(json.loads(await socket.recv()))
    return events


@pytest.mark.parametrize("manual", [False, True])
async def test_a_turn_comes_out_as_its_words(dynamo: Server, manual: bool) -> None:
    if manual:
        events = await transcribed(dynamo, None, {"type": "input_audio_buffer.commit"})
    else:
        events = await transcribed(dynamo, INPUT["turn_detection"])
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["session.created", "session.updated"]
    assert "input_audio_buffer.committed" in kinds
    assert ("input_audio_buffer.speech_started" in kinds) != manual
    deltas = [event["delta"] for event in events if event["type"].endswith("transcription.delta")]
    assert "".join(deltas) == events[-1]["transcript"]
    assert jiwer.wer(recordings.words("hello"), events[-1]["transcript"]) <= 0.34


def test_our_own_protocols_stay_available(dynamo: Server) -> None:
    own = next(line for line in dynamo.log if "Frontend" in line and "listening at" in line)
    answer = httpx.get(own.split("listening at ")[1].strip() + "/health", timeout=ANSWER_SECONDS)
    assert answer.json() == {"status": "ready", "processors": 1, "missing": []}
