"""A live session continues after its connection is cut, with the same words and each event once."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import websockets

from auricle.client.stream import Event, stream_file
from auricle.core.aio import cancelled
from auricle_testing import recordings
from auricle_testing.faulty_proxy import Proxy, proxied
from auricle_testing.server import Server, frontend_beside
from auricle_testing.transcripts import heard
from tests.faults.sessions import check_words

pytestmark = pytest.mark.end_to_end
SECONDS = 300.0
CUTS, CUT_SECONDS = 5, 2.0
START: Event = {"type": "start", "sample_rate": 16_000, "language": "english"}
PCM = (recordings.samples("kitchen") * 32767).astype("<i2")


async def spoken(url: str, begun: asyncio.Event | None = None) -> list[Event]:
    """A live session of two recordings; `begun` is set as soon as it can be resumed."""
    pause = np.zeros(recordings.SAMPLE_RATE, np.float32)
    samples = np.concatenate([recordings.samples(n) for n in ("station", "kitchen")] + [pause])
    events: list[Event] = []
    async with asyncio.timeout(SECONDS):
        async for event in stream_file(url, samples, live=True):
            events.append(event)
            if begun is not None:
                begun.set()
    return events


async def cut_again_and_again(proxy: Proxy, server: Server, begun: asyncio.Event) -> None:
    """Cut each connection a while after the session has begun or resumed."""

    def resumed() -> float:
        return server.metric("Frontend", "auricle_frontend_sessions_resumed_total")

    before = await asyncio.to_thread(resumed)
    await begun.wait()
    for cut in range(CUTS):
        while await asyncio.to_thread(resumed) < before + cut:  # noqa: ASYNC110  another process
            await asyncio.sleep(0.1)
        await asyncio.sleep(CUT_SECONDS)  # how often connections are lost, not a wait
        proxy.cut()


def check_once(events: list[Event]) -> None:
    assert [e["type"] for e in events].count("ready") == 1
    marks = [e for e in events if e["type"].startswith("speech_")]
    assert [e["type"] for e in marks] == ["speech_started", "speech_stopped"] * (len(marks) // 2)
    assert [e["at_ms"] for e in marks] == sorted({e["at_ms"] for e in marks})
    partials = [(e["segment"], e["audio_ms"]) for e in events if e["type"] == "partial"]
    assert all(before < after for before, after in pairwise(partials))


async def test_a_session_cut_again_and_again_has_the_words_of_one_that_was_not(
    server: Server,
) -> None:
    async with proxied(server.url) as (proxy, through):
        begun = asyncio.Event()
        cutting = asyncio.create_task(cut_again_and_again(proxy, server, begun))
        try:
            # Concurrently: only connections through the proxy are cut.
            undisturbed, events = await asyncio.gather(spoken(server.url), spoken(through, begun))
        finally:
            await cancelled([cutting])
        assert proxy.connections_made > CUTS
    check_once(events)
    check_words(heard(undisturbed), heard(events))
    times = [
        [(e["type"], e["at_ms"]) for e in of if e["type"].startswith("speech_")]
        for of in (undisturbed, events)
    ]
    assert times[0] == times[1]
    finals = [
        [(e["start_ms"], e["end_ms"]) for e in of if e["type"] == "final"]
        for of in (undisturbed, events)
    ]
    assert finals[0] == finals[1]


class Session:
    """A client that reads every message, and reacts to none by itself."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket

    async def until(self, *types: str) -> Event:
        while True:
            event = json.loads(await self.socket.recv())
            if event["type"] in types:
                return event

    async def send(self, pcm: np.ndarray) -> None:
        for at in range(0, len(pcm), 100_000):
            await self.socket.send(pcm[at : at + 100_000].astype("<i2").tobytes())


def connect(url: str, key: str | None = None, query: str = "?resume=true") -> websockets.connect:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    address = url.replace("http", "ws") + "/v1/audio/stream" + query
    return websockets.connect(address, additional_headers=headers, ping_timeout=None)


async def token(url: str, pcm: np.ndarray = PCM[:64_000], **fields: Any) -> Event:
    """`resume` of a session's last message before the client left."""
    async with connect(url, query="") as socket:
        session = Session(socket)
        await socket.send(json.dumps(START | fields))
        await session.until("ready")
        await session.send(pcm)
        return dict((await session.until("partial"))["resume"])


async def refused(url: str, start: Event, query: str = "?resume=true") -> Event:
    async with connect(url, query=query) as socket:
        await socket.send(json.dumps(start))
        event = json.loads(await socket.recv())
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
    assert event["type"] == "error"
    return event


async def test_another_frontend_goes_on_and_one_that_gives_no_tokens_does_not(
    server: Server,
) -> None:
    resume = await token(server.url)
    assert resume["from_sample"] <= 64_000
    with frontend_beside(server) as other:
        async with connect(other.url) as socket:
            session = Session(socket)
            await socket.send(json.dumps(START | {"resume": resume}))
            ready = await session.until("ready", "error")
            assert ready["type"] == "ready", ready
            await session.send(PCM[resume["from_sample"] :])
            await socket.send('{"type": "end"}')
            done = await session.until("done", "error")
            assert done["type"] == "done", done
            assert done["usage"]["audio_ms"] == len(PCM) // 16
    with frontend_beside(server, "--Frontend.resume_seconds=0") as off:
        error = await refused(off.url, START | {"resume": resume})
        assert error["code"] == "resume_off"
        async with connect(off.url, query="") as socket:
            await socket.send(json.dumps(START))
            await Session(socket).send(np.zeros(30 * 16_000))
            await socket.send('{"type": "end"}')
            events = [json.loads(message) async for message in socket]
        assert [e["type"] for e in events] == ["ready", "done"]
        assert "resume" not in events[0]


async def test_each_refusal_has_its_code(server: Server) -> None:
    resume = await token(server.url)
    ahead = resume | {"from_sample": resume["from_sample"] + 1}
    middle = "B" if resume["token"][100] == "A" else "A"
    changed = resume | {"token": resume["token"][:100] + middle + resume["token"][101:]}
    cases = [
        (START | {"resume": {"token": "nonsense", "from_sample": 0}}, "resume_malformed"),
        (START | {"resume": changed}, "resume_forged"),
        (START | {"resume": resume, "context": "Ann"}, "resume_other_options"),
        (START | {"resume": ahead}, "resume_position"),
        (START, "resume_missing"),
        (START | {"resume": {"token": resume["token"]}}, "protocol"),
    ]
    for start, code in cases:
        error = await refused(server.url, start)
        assert error["code"] == code, error
    with pytest.raises(websockets.InvalidStatus) as wrong:
        await connect(server.url, query="?resume=1")
    assert wrong.value.response.status_code == 400


async def test_a_token_is_good_for_its_time(server: Server) -> None:
    with frontend_beside(server, "--Frontend.resume_seconds=0.001") as short:
        resume = await token(short.url)
        error = await refused(short.url, START | {"resume": resume})
        assert error["code"] == "resume_expired"


async def test_another_sample_rate_is_resumed_at_the_clients_own_samples(server: Server) -> None:
    """The client counts and resends in its own sample rate, from the token's `from_sample`."""
    pcm = np.repeat(PCM, 3)
    resume = await token(server.url, pcm[:192_000], sample_rate=48_000)
    assert resume["from_sample"] % 3 == 0
    async with connect(server.url) as socket:
        session = Session(socket)
        await socket.send(json.dumps(START | {"sample_rate": 48_000, "resume": resume}))
        await session.until("ready")
        await session.send(pcm[resume["from_sample"] :])
        await socket.send('{"type": "end"}')
        done = await session.until("done", "error")
    assert done["type"] == "done", done
    assert done["usage"]["audio_ms"] == len(PCM) // 16


async def test_silence_need_not_be_kept(server: Server) -> None:
    """In long silence, checkpoints let the client discard the audio that it has kept."""
    async with connect(server.url, query="") as socket:
        session = Session(socket)
        await socket.send(json.dumps(START))
        await session.until("ready")
        await session.send(np.zeros(30 * 16_000))
        first, second = [await session.until("checkpoint") for _ in range(2)]
    assert first["resume"]["from_sample"] < second["resume"]["from_sample"]
    assert second["resume"]["from_sample"] > 15 * 16_000
