"""Clients that stop sending in the middle of a session get their text, on the real graph."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jiwer
import pytest
import websockets

from auricle_testing import recordings
from auricle_testing.faulty_proxy import proxied
from auricle_testing.server import Server
from tests.pcm import pcm
from tests.waiting import until

pytestmark = pytest.mark.end_to_end
NAME = "hello"
STALL_SECONDS = 5.0  # half of the recording, and a silence of 2 s: with `flux` the longest
Event = dict[str, Any]


class Way(NamedTuple):
    """A protocol: its path, first message, message of audio, and the text that ends speech."""

    path: str
    first: Event | None
    audio: Callable[[bytes], bytes | str]
    text: Callable[[Event], str | None]


def appended(audio: bytes) -> str:
    event = {"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()}
    return json.dumps(event)


LINEAR = "encoding=linear16&sample_rate=16000"
REALTIME = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}}
WAYS = {
    "stream": Way(
        "/v1/audio/stream",
        {"type": "start", "sample_rate": 16_000},
        bytes,
        lambda event: event["text"] if event["type"] == "final" else None,
    ),
    "realtime": Way(
        "/v1/realtime",
        {"type": "session.update", "session": REALTIME},
        appended,
        lambda event: event["transcript"] if event["type"].endswith(".completed") else None,
    ),
    "listen": Way(
        f"/v1/listen?{LINEAR}",
        None,
        bytes,
        lambda event: (
            event["channel"]["alternatives"][0]["transcript"] if event.get("speech_final") else None
        ),
    ),
    "flux": Way(
        f"/v2/listen?{LINEAR}&eot_timeout_ms=2000",
        None,
        bytes,
        lambda event: event["transcript"] if event.get("event") == "EndOfTurn" else None,
    ),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
async def test_speech_is_final_though_nothing_follows_and_so_is_the_next(
    server: Server, way: str
) -> None:
    path, first, audio, text = WAYS[way]
    address = server.url.replace("http", "ws") + path
    async with websockets.connect(address, max_size=None) as socket:
        if first is not None:
            await socket.send(json.dumps(first))
        for _ in range(2):
            await socket.send(audio(pcm(NAME)))
            found: list[str] = []
            while jiwer.wer(recordings.words(NAME), " ".join(found) or "-") > 0.4:
                event = json.loads(await socket.recv())
                assert event["type"].lower() != "error", event
                if (said := text(event)) is not None:
                    found.append(said)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
async def test_a_network_that_stalls_in_the_middle_of_a_word_changes_nothing(
    server: Server, way: str
) -> None:
    """No audio comes for longer than any silence that would end the speech."""
    path, first, audio, text = WAYS[way]
    spoken = pcm(NAME)
    half = len(spoken) // 4 * 2
    async with proxied(server.url) as (proxy, url):

        async def heard(*, stalls: bool) -> str:
            address, passed = url.replace("http", "ws") + path, proxy.bytes_passed
            async with websockets.connect(address, compression=None) as socket:
                if first is not None:
                    await socket.send(json.dumps(first))
                await socket.send(audio(spoken[:half]))
                await until(lambda: proxy.bytes_passed >= passed + half)
                if stalls:
                    proxy.stall()
                    asyncio.get_running_loop().call_later(STALL_SECONDS, proxy.go_on)
                await socket.send(audio(spoken[half:]))
                async for message in socket:
                    event = json.loads(message)
                    assert event["type"].lower() != "error", event
                    if (said := text(event)) is not None:
                        return said
            raise AssertionError("the server closed the connection")

        assert await heard(stalls=True) == await heard(stalls=False)
