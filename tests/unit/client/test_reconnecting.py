"""A client that loses connections continues elsewhere; no kept audio is lost or sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.client import ConnectionLost
from auricle.client import connection as connection_module
from auricle.client.sources import AudioSource
from auricle.client.stream import (
    ConnectionOptions,
    Event,
    KeptAudio,
    stream_audio,
    stream_file,
)
from auricle.core.errors import BadRequest, Overloaded
from tests.fakes.stream_server import Connection, final, serving

pytestmark = pytest.mark.unit
SAMPLES = np.arange(40_000, dtype=np.float32) / 40_000
PCM = np.round(SAMPLES * 32768).astype("<i2").tobytes()


async def streamed(url: str | list[str], **options: Any) -> list[Event]:
    async with asyncio.timeout(120):
        return [e async for e in stream_file(url, SAMPLES, live=False, **options)]


async def test_it_sends_again_what_the_last_message_says_and_tells_nobody_twice() -> None:
    async def first(connection: Connection) -> None:
        assert connection.path == "/v1/audio/stream"
        assert "resume" not in await connection.start()
        await connection.ready(0)
        assert await connection.audio() == PCM
        await connection.say("final", 12_345, **final(0, "one"))
        connection.cut()

    async def second(connection: Connection) -> None:
        assert connection.path == "/v1/audio/stream?resume=true"
        start = await connection.start()
        assert start["resume"] == {"token": "t12345", "from_sample": 12_345}
        assert start["context"] == "Ann"
        await connection.ready(12_345)
        assert await connection.audio() == PCM[2 * 12_345 :]
        await connection.say("checkpoint", 20_000)
        await connection.say("final", 30_000, **final(1, "two"))
        await connection.say("done", text="two", usage={})

    lines: list[str] = []
    async with serving(first, second) as url:
        events = await streamed(url, context="Ann", on_lost=lines.append)
    assert [e["type"] for e in events] == ["ready", "final", "final", "done"]
    assert events[-1]["text"] == "one two"
    assert not any("resume" in event for event in events)
    (line,) = lines
    assert line.startswith(url) and line.endswith("resuming")


async def test_going_away_is_such_a_loss() -> None:
    async def first(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        await connection.say("going_away", 100, resume_ms=6, context="before")

    async def second(connection: Connection) -> None:
        assert (await connection.start())["resume"]["from_sample"] == 100
        await connection.ready(100)
        assert await connection.audio() == PCM[200:]
        await connection.say("done", text="", usage={})

    async with serving(first, second) as url:
        assert [e["type"] for e in await streamed(url)] == ["ready", "done"]


async def test_a_server_without_tokens_is_followed_by_a_new_session() -> None:
    async def first(connection: Connection) -> None:
        await connection.start()
        await connection.ready()
        await connection.say("final", **final(0, "one"))
        await connection.say("going_away", resume_ms=1_000, context="one")

    async def second(connection: Connection) -> None:
        start = await connection.start()
        assert connection.path == "/v1/audio/stream"
        assert start["context"] == "one" and "resume" not in start
        await connection.ready()
        assert await connection.audio() == PCM[2 * 16_000 :]
        await connection.say("final", **final(0, "two"))
        await connection.say("done", text="two", usage={})

    async with serving(first, second) as url:
        events = await streamed(url)
    assert [(e["segment"], e["start_ms"]) for e in events[1:3]] == [(0, 0), (1, 1_000)]
    assert events[-1]["text"] == "one two"


async def cut_after_ready(connection: Connection) -> None:
    await connection.start()
    await connection.ready(0)
    connection.cut()


async def finish(connection: Connection) -> None:
    await connection.start()
    await connection.ready(0)
    await connection.audio()
    await connection.say("done", text="", usage={})


async def test_it_tries_again_while_a_server_is_full() -> None:
    refuse: list[HTTPStatus] = []

    async def first(connection: Connection) -> None:
        refuse.extend([HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS])
        await cut_after_ready(connection)

    async def busy(connection: Connection) -> None:
        await connection.start()
        await connection.say("error", code="overloaded", message="going")

    async with serving(first, busy, finish, refuse=refuse) as url:
        assert (await streamed(url))[-1]["type"] == "done"
    assert not refuse


async def test_the_next_server_is_tried_first() -> None:
    async with serving(cut_after_ready) as one, serving(finish) as other:
        assert (await streamed([one, other]))[-1]["type"] == "done"


async def test_a_live_client_leaves_a_server_whose_host_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing reads the audio, which fills all buffers before the next ping."""
    for name, seconds in (("_PING", 0.5), ("_PONG", 3.0), ("_CLOSE", 0.2)):
        monkeypatch.setattr(connection_module, f"{name}_SECONDS", seconds)
    noise = np.random.default_rng(0).integers(-30_000, 30_000, 10 * SAMPLE_RATE, np.int16)
    over = asyncio.Event()

    async def lost(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        connection.socket.transport.pause_reading()
        await over.wait()

    async def microphone() -> AsyncGenerator[Int16, None]:
        for _ in range(40):  # more than the kernel's buffers hold
            yield noise

    async with serving(lost) as one, serving(finish) as other:
        source = AudioSource(microphone(), SAMPLE_RATE, at_hand=False, live=True)
        # The next server may read slowly on a busy machine, and its pongs come after the audio.
        options = ConnectionOptions(
            urls=[one, other], live=True, on_lost=lambda _: monkeypatch.undo()
        )
        start = {"type": "start", "sample_rate": SAMPLE_RATE}
        async with asyncio.timeout(60):
            events = [event async for event in stream_audio(start, source, options)]
        over.set()
    assert [event["type"] for event in events] == ["ready", "done"]


async def test_a_session_is_not_begun_twice() -> None:
    """Only sessions that have begun are resumed; a first rejection is raised."""
    async with serving(refuse=[HTTPStatus.SERVICE_UNAVAILABLE]) as url:
        with pytest.raises(Overloaded, match="refused"):
            await streamed(url)


async def test_it_gives_up_in_time() -> None:
    refuse: list[HTTPStatus] = []

    async def first(connection: Connection) -> None:
        refuse.extend([HTTPStatus.SERVICE_UNAVAILABLE] * 100)
        await cut_after_ready(connection)

    async with serving(first, refuse=refuse) as url:
        with pytest.raises(ConnectionLost, match="not resumed within 2 s: ") as lost:
            await streamed(url, resume_seconds=2.0)
    assert isinstance(lost.value.__cause__, Overloaded)
    assert len(refuse) < 99  # it has tried more than once


async def test_a_refused_token_is_the_end() -> None:
    async def refusing(connection: Connection) -> None:
        await connection.start()
        await connection.say("error", code="resume_expired", message="too late")

    async with serving(cut_after_ready, refusing) as url:
        with pytest.raises(ConnectionLost, match="too late") as lost:
            await streamed(url)
    assert lost.value.code == "resume_expired"


async def test_addresses_are_checked() -> None:
    with pytest.raises(BadRequest, match="must begin with http"):
        await streamed("localhost:8080")


async def test_audio_waits_while_too_much_is_unsent() -> None:
    kept = KeptAudio(most=100, most_unsent=30)
    await kept.put(np.zeros(40, np.int16))
    putting = asyncio.create_task(kept.put(np.ones(10, np.int16)))
    await asyncio.sleep(0)
    assert not putting.done()
    kept.sent(40)
    await putting
    assert kept.end == 50


async def test_what_was_sent_is_forgotten_beyond_a_limit_and_that_is_said() -> None:
    kept = KeptAudio(most=100, most_unsent=1_000)
    for number in range(30):
        await kept.put(np.full(10, number, np.int16))
        kept.sent(kept.end)
    packet = await kept.packet(200)
    assert packet is not None
    assert np.frombuffer(packet, "<i2").tolist() == [n for n in range(20, 30) for _ in range(10)]
    with pytest.raises(ConnectionLost, match="server needs its audio from sample 50"):
        await kept.packet(50)
    kept.finish()
    assert await kept.packet(300) is None
