"""Two frontends of one graph: limits of keys, withdrawn keys and resumed sessions are shared."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
import websockets
import yaml

from auricle.client.stream import Event
from auricle.config.settings import ProcessorSettings
from auricle.frontend.transport.access.keys import new_key
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, Server, eventually, frontend_beside
from auricle_testing.transcripts import heard
from tests.faults.sessions import check_words

pytestmark = pytest.mark.end_to_end
START: Event = {"type": "start", "sample_rate": 16_000, "language": "english"}
PCM = (recordings.samples("kitchen") * 32767).astype("<i2")
LIMITS = {
    "four": {"max_sessions": 4},
    "single": {"max_sessions": 1},
    "slow": {"audio_minutes_per_minute": 0.02},
    "withdrawn": {},
    "plain": {},
    "many": {"max_sessions": 1000},
}


@dataclass(frozen=True)
class Pair:
    """Two frontends with one keys file, and the keys."""

    urls: tuple[str, str]
    secrets: dict[str, str]
    file: Path

    def connect(self, frontend: int, who: str, query: str = "") -> websockets.connect:
        address = self.urls[frontend].replace("http", "ws") + "/v1/audio/stream" + query
        headers = {"Authorization": f"Bearer {self.secrets[who]}"}
        return websockets.connect(address, additional_headers=headers, ping_timeout=None)


@pytest.fixture(scope="module")
def pair(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = {name: new_key(name) for name in LIMITS}
    entries = [made[n][1].model_dump(exclude_defaults=True) | LIMITS[n] for n in LIMITS]
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    file.write_text(yaml.safe_dump({"keys": entries}))
    option = f"--Frontend.api_keys_file={file}"
    with frontend_beside(server, option) as first, frontend_beside(server, option) as second:
        secrets = {name: secret for name, (secret, _) in made.items()}
        yield Pair((first.url, second.url), secrets, file)


@pytest.fixture(autouse=True)
async def deadline() -> AsyncIterator[None]:
    async with asyncio.timeout(300):
        yield


async def begun(socket: websockets.ClientConnection, **fields: object) -> Event:
    """Start a session; return `ready` or the error, after which the connection is closed."""
    with suppress(websockets.ConnectionClosed):
        await socket.send(json.dumps(START | fields))
    return dict(json.loads(await socket.recv()))


async def test_a_burst_at_both_frontends_gets_as_many_sessions_as_its_key_has(pair: Pair) -> None:
    async with AsyncExitStack() as held:
        connections = [pair.connect(number % 2, "four") for number in range(12)]
        sockets = await asyncio.gather(*map(held.enter_async_context, connections))
        events = await asyncio.gather(*map(begun, sockets))
    found = Counter(event.get("code", event["type"]) for event in events)
    assert found == {"ready": 4, "rate_limited": 8}


async def test_audio_that_one_frontend_charged_is_used_up_at_the_other(pair: Pair) -> None:
    """The live sessions at the second frontend send no audio."""
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
        answer = await client.post(
            f"{pair.urls[0]}/v1/audio/transcriptions",
            data={"model": "demo"},
            files={"file": ("x.flac", recordings.path("kitchen").read_bytes())},
            headers={"Authorization": f"Bearer {pair.secrets['slow']}"},
        )
    assert answer.status_code == 200
    while True:
        async with pair.connect(1, "slow") as socket:
            event = await begun(socket)
        if event["type"] == "error":
            break
        await asyncio.sleep(0.1)
    assert event["code"] == "rate_limited"
    assert "minutes of audio per minute" in event["message"]


async def test_a_key_that_is_withdrawn_ends_its_sessions_at_both_frontends(pair: Pair) -> None:
    async with AsyncExitStack() as held:
        sockets = [
            await held.enter_async_context(pair.connect(number, who))
            for number in (0, 1)
            for who in ("withdrawn", "plain")
        ]
        for socket in sockets:
            assert (await begun(socket))["type"] == "ready"
        keys = yaml.safe_load(pair.file.read_text())["keys"]
        kept = [key for key in keys if key["name"] != "withdrawn"]
        pair.file.write_text(yaml.safe_dump({"keys": kept}))
        for ended in sockets[::2]:
            error = json.loads(await ended.recv())
            assert error["message"] == "this API key was withdrawn"
            await ended.wait_closed()
            assert ended.close_code == 1008
        for going_on in sockets[1::2]:
            await (await going_on.ping())
            assert going_on.close_code is None
    for number in (0, 1):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await pair.connect(number, "withdrawn").__aenter__()
        assert refused.value.response.status_code == 401


async def test_a_session_moves_to_the_other_frontend_although_the_first_believes_it_alive(
    pair: Pair,
) -> None:
    """Its client lost the path to the first frontend, and its key may have one session."""
    whole = await events_of(pair, PCM)
    async with pair.connect(0, "single") as older:
        before = [await begun(older)]
        await send(older, PCM[:64_000])
        while before[-1]["type"] != "partial":
            before.append(json.loads(await older.recv()))
        resume = before[-1]["resume"]
        async with pair.connect(1, "single", "?resume=true") as newer:
            after = [await begun(newer, resume=resume)]
            assert after[0]["type"] == "ready", after
            await send(newer, PCM[resume["from_sample"] :])
            await newer.send('{"type": "end"}')
            after += await rest(newer)
        assert (await rest(older))[-1]["code"] == "resume_taken_over"
    assert after[-1]["type"] == "done", after
    # `done` has only the finals of its own connection.
    finals = [event for event in before + after if event["type"] == "final"]
    assert [event["segment"] for event in finals] == list(range(len(finals)))
    check_words(heard(whole), " ".join(event["text"] for event in finals if event["text"]))
    marks = [
        [(e["type"], e["at_ms"]) for e in events if e["type"].startswith("speech_")]
        for events in (whole, before + after)
    ]
    assert marks[0] == marks[1]


async def events_of(pair: Pair, pcm: np.ndarray) -> list[Event]:
    async with pair.connect(0, "plain") as socket:
        events = [await begun(socket)]
        await send(socket, pcm)
        await socket.send('{"type": "end"}')
        return events + await rest(socket)


async def rest(socket: websockets.ClientConnection) -> list[Event]:
    """The events until the server closes the connection, with whatever code."""
    events: list[Event] = []
    with suppress(websockets.ConnectionClosed):
        while True:
            events.append(json.loads(await socket.recv()))
    return events


async def send(socket: websockets.ClientConnection, pcm: np.ndarray) -> None:
    for at in range(0, len(pcm), 100_000):
        await socket.send(pcm[at : at + 100_000].astype("<i2").tobytes())


async def test_a_burst_at_both_frontends_gets_the_last_places_of_the_processor_once(
    server: Server, pair: Pair
) -> None:
    """The processor admits sessions; its frontends do not share out its places by themselves."""
    open_sessions = partial(server.metric, "Processor", "auricle_processor_sessions")
    await eventually(lambda: open_sessions() == 0, seconds=60)
    places = ProcessorSettings.model_validate({}).max_sessions
    async with AsyncExitStack() as held:
        almost = [pair.connect(number % 2, "many") for number in range(places - 3)]
        for socket in await asyncio.gather(*map(held.enter_async_context, almost)):
            assert (await begun(socket))["type"] == "ready"
        burst = [pair.connect(number % 2, "many") for number in range(20)]
        found = await asyncio.gather(*map(held.enter_async_context, burst), return_exceptions=True)
    refused = [one for one in found if isinstance(one, websockets.InvalidStatus)]
    assert len(refused) == 17
    assert {one.response.status_code for one in refused} == {503}
    assert all("Retry-After" in one.response.headers for one in refused)
