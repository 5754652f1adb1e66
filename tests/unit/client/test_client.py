"""The client library from the view of a program that imports it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

import auricle.client
from auricle.client import (
    AuricleError,
    BadRequest,
    Client,
    ConnectionLost,
    Done,
    Final,
    Overloaded,
    Pcm,
    RateLimited,
    Ready,
    ServerUnreachable,
    StreamEvent,
    SyncClient,
    Unauthorized,
)
from auricle.client.errors import refusal
from auricle.client.events import plain, typed
from auricle.client.sources import Microphone, open_source
from auricle.frontend.protocols.stream import messages as protocol
from auricle.protocol import stream
from auricle_testing.server import ROOT
from tests.fakes.stream_server import Connection, final, serving

pytestmark = pytest.mark.unit
TONE = np.arange(1_000, dtype=np.int16)


def test_importing_it_loads_nothing_of_a_server_and_no_model_library() -> None:
    code = "import sys, auricle.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    heavy = {
        "torch",
        "transformers",
        "vllm",
        "dynamo",
        "nixl",
        "onnxruntime",
        "fastapi",
        "pydantic",
    }
    # Slow imports are deferred to their use.
    later = {"av", "httpx", "rich", "sounddevice"}
    assert not (heavy | later) & {name.split(".")[0] for name in loaded}
    rooms = {name.split(".")[1] for name in loaded if name.startswith("auricle.")}
    assert rooms == {"audio", "client", "core", "protocol"}


def test_the_command_line_uses_the_library_and_nothing_else() -> None:
    tree = ast.parse((ROOT / "components/auricle/client/transcribe.py").read_text())
    used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "auricle.client.client" in used
    assert not {name for name in used if name and name.endswith((".stream", ".reconnecting"))}


def test_every_event_of_the_server_is_one_of_the_library() -> None:
    """Except for events that the library handles itself: errors, and the ones for resuming."""
    ours = {kind.__struct_config__.tag: kind for kind in get_args(StreamEvent)}
    theirs = {kind.__struct_config__.tag: kind for kind in get_args(stream.Reply)}
    assert theirs.keys() - ours.keys() == {"checkpoint", "going_away", "error"}


def test_every_option_of_the_server_is_one_of_the_library() -> None:
    """Except for the audio format, which the library sets itself, and the token."""
    asked = {f.name for f in msgspec.structs.fields(protocol.Start)}
    ours = set(auricle.client.StreamOptions.__annotations__)
    assert asked - ours == {"encoding", "feature_dtype", "resume"}
    assert ours - asked == {"live", "on_sent"}
    endpointing = {f.name for f in msgspec.structs.fields(protocol.StreamEndpointing)}
    assert set(auricle.client.Endpointing.__annotations__) == endpointing


def test_what_a_newer_server_says_besides_is_left_out() -> None:
    assert typed({"type": "mood", "mood": "good"}) is None
    message = {"type": "final", **final(0, "one"), "mood": "good"}
    event = typed(message)
    assert event == Final(0, "one", 0, 1, "English")
    assert plain(event) == {"type": "final", **final(0, "one")}


def test_the_asynchronous_and_the_synchronous_client_take_the_same() -> None:
    for name in ("__init__", "stream", "transcribe", "capabilities"):
        ours, theirs = (
            [(p.name, p.kind, p.annotation) for p in inspect.signature(call).parameters.values()]
            for call in (getattr(Client, name), getattr(SyncClient, name))
        )
        assert ours == theirs


async def packets(source: Any, sample_rate: int | None = None) -> list[np.ndarray]:
    async with aclosing(open_source(source, sample_rate).packets) as found:
        return [packet async for packet in found]


async def of(*items: Pcm) -> AsyncIterator[Pcm]:
    for item in items:
        yield item


BYTES = TONE.astype("<i2").tobytes()


@pytest.mark.parametrize(
    "source",
    [
        lambda: BYTES,
        lambda: bytearray(BYTES),
        lambda: TONE,
        lambda: TONE / np.float32(32_768),
        lambda: iter([BYTES[:1], BYTES[1:4], memoryview(BYTES)[4:]]),
        lambda: [TONE[:10], BYTES[20:]],
        lambda: of(BYTES[:333], BYTES[333:]),
        lambda: BYTES + b"x",  # half a sample at the end
    ],
)
async def test_samples_come_in_many_forms(source: Any) -> None:
    assert np.concatenate(await packets(source())).tolist() == TONE.tolist()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (np.zeros((10, 2), np.int16), r"one channel, of shape \(samples,\), not \(10, 2\)"),
        (np.zeros(10, np.int32), "int16 or floats in .*, not int32"),
        (["text"], "the source yielded a str; it must yield bytes or arrays"),
        (7, "a int is not an audio source; use a path"),
        ("missing.wav", "no such audio file: missing.wav"),
    ],
)
async def test_what_is_no_audio_is_told_so(source: Any, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        await packets(source)


async def test_a_file_has_a_rate_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="sample_rate is for samples"):
        await packets(tmp_path / "a.wav", sample_rate=8_000)


async def test_a_source_that_blocks_is_asked_for_one_packet_at_a_time_and_closed() -> None:
    asked: list[int] = []
    closed = threading.Event()

    def blocking() -> Iterator[bytes]:
        try:
            for number in range(100):
                asked.append(number)
                yield bytes(2)
        finally:
            closed.set()

    async with aclosing(open_source(blocking(), None).packets) as found:
        await anext(found)
        await anext(found)
    assert await asyncio.to_thread(closed.wait, 30)
    assert asked == [0, 1]


def test_a_microphone_without_its_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(BadRequest, match=r"pip install 'auricle\[client,microphone\]'"):
        next(iter(Microphone()))


async def test_a_microphone_says_its_rate_and_that_it_is_live() -> None:
    audio = open_source(Microphone(sample_rate=44_100), None)
    await audio.packets.aclose()
    assert (audio.rate, audio.live, audio.at_hand) == (44_100, True, False)


async def test_the_source_is_sent_at_its_own_rate_and_with_what_was_asked() -> None:
    async def session(connection: Connection) -> None:
        assert await connection.start() == {
            "type": "start",
            "sample_rate": 8_000,
            "language": "en",
            "context": "",
            "partials": False,
            "endpointing": {"min_silence_ms": 300},
        }
        await connection.ready()
        assert await connection.audio() == BYTES
        await connection.say("done", text="", usage={"audio_ms": 125})

    async with serving(session) as url:
        events = Client(url).stream(
            BYTES,
            sample_rate=8_000,
            language="en",
            partials=False,
            endpointing={"min_silence_ms": 300},
        )
        assert [event async for event in events] == [
            Ready("s", "demo", 640),
            Done("", auricle.client.Usage(audio_ms=125)),
        ]


async def test_times_of_a_session_that_followed_another_are_of_the_source() -> None:
    """Positions are counted at the source's sample rate."""

    async def first(connection: Connection) -> None:
        await connection.start()
        await connection.ready()
        await connection.say("going_away", resume_ms=100, context="")

    async def second(connection: Connection) -> None:
        await connection.start()
        await connection.ready()
        assert await connection.audio() == BYTES[2 * 800 :]
        await connection.say("speech_started", at_ms=10)
        await connection.say("done", text="", usage={})

    async with serving(first, second) as url:
        events = [event async for event in Client(url).stream(BYTES, sample_rate=8_000)]
    assert events[1] == auricle.client.SpeechStarted(110)


async def test_a_source_that_fails_ends_the_session_with_its_own_error() -> None:
    async def session(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        await connection.socket.wait_closed()

    def failing() -> Iterator[bytes]:
        yield bytes(2)
        raise TimeoutError("the line is dead")

    async with serving(session) as url:
        with pytest.raises(TimeoutError, match="the line is dead"):
            async for _ in Client(url).stream(failing()):
                pass


async def test_an_error_of_the_server_is_of_its_kind_and_names_the_field() -> None:
    async def refusing(connection: Connection) -> None:
        await connection.start()
        await connection.say("error", code="protocol", message="no", param="chunk_ms")

    async def full(connection: Connection) -> None:
        await connection.start()
        await connection.say("error", code="overloaded", message="no", retry_after_seconds=7.5)

    async with serving(refusing, full) as url:
        with pytest.raises(BadRequest) as refused:
            await anext(Client(url).stream(BYTES, chunk_ms=5))
        assert (refused.value.code, refused.value.param) == ("protocol", "chunk_ms")
        with pytest.raises(Overloaded) as busy:
            await anext(Client(url).stream(BYTES))
        assert busy.value.retry_after_seconds == 7.5


async def test_a_refusal_at_the_handshake_says_when_to_try_again() -> None:
    body = json.dumps({"error": {"message": "full", "code": "overloaded", "param": None}})
    error = refusal("http://here", 503, body.encode(), "12")
    assert isinstance(error, Overloaded)
    assert (str(error), error.retry_after_seconds) == (
        "the server at http://here refused: full",
        12.0,
    )
    async with serving(refuse=[HTTPStatus.UNAUTHORIZED]) as url:
        with pytest.raises(Unauthorized):
            await anext(Client(url).stream(BYTES))


@pytest.mark.parametrize(
    ("status", "kind"), [(429, RateLimited), (503, Overloaded), (401, Unauthorized)]
)
def test_a_refusal_of_something_before_the_server_is_known_by_its_status(
    status: int, kind: type[Exception]
) -> None:
    assert isinstance(refusal("http://here", status, b"<html>", "Wed, 21 Oct 2026"), kind)


async def test_nobody_there_is_told_from_a_session_that_was_lost() -> None:
    with pytest.raises(ServerUnreachable, match="no auricle server at http"):
        await anext(Client("http://127.0.0.1:9").stream(BYTES))
    with pytest.raises(ServerUnreachable, match="no auricle server at http"):
        await Client("http://127.0.0.1:9").transcribe(ROOT / "README.md")

    async def session(connection: Connection) -> None:
        await connection.start()
        await connection.ready()  # without a token
        connection.cut()

    async with serving(session) as url:
        with pytest.raises(ConnectionLost, match="closed the connection"):
            async for _ in Client(url).stream(BYTES):
                pass
    with pytest.raises(BadRequest, match="urls is empty"):
        Client([])


async def test_the_synchronous_client_works_beside_an_event_loop() -> None:
    async def session(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        await connection.audio()
        await connection.say("final", 10, **final(0, "one"))
        await connection.say("done", text="one", usage={})

    async def left(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        await connection.socket.wait_closed()

    async with serving(session, left) as url:
        kinds = await asyncio.to_thread(
            lambda: [type(event) for event in SyncClient(url).stream(BYTES)]
        )
        assert kinds == [Ready, Final, Done]

        def leave() -> None:
            events = SyncClient(url).stream(iter([BYTES]))
            next(events)
            events.close()

        await asyncio.to_thread(leave)
    assert not [t for t in threading.enumerate() if t.name == "auricle-client-loop"]


class Ends(BaseException):
    """An exception that no error handler expects."""


async def test_a_source_that_ends_in_another_way_does_not_leave_its_session_waiting() -> None:
    def interrupted() -> Iterator[bytes]:
        yield bytes(2)
        raise Ends

    async def cancelled() -> AsyncIterator[bytes]:
        yield bytes(2)
        raise asyncio.CancelledError

    async def session(connection: Connection) -> None:
        await connection.start()
        await connection.ready(0)
        await connection.socket.wait_closed()

    async with serving(session, session) as url, asyncio.timeout(120):
        with pytest.raises(RuntimeError, match="ended with Ends"):
            async for _ in Client(url).stream(interrupted()):
                pass
        with pytest.raises(RuntimeError, match="source of the audio was cancelled"):
            async for _ in Client(url).stream(cancelled()):
                pass


@pytest.mark.parametrize("said", ["[1]", "{nonsense", '{"type": 7}', '{"type": "ready"}'])
async def test_a_server_of_another_kind_is_an_error_of_ours(said: str) -> None:
    async def session(connection: Connection) -> None:
        await connection.start()
        await connection.socket.send(said)
        await connection.socket.wait_closed()

    async with serving(session) as url:
        with pytest.raises(AuricleError, match="the server sent"):
            await anext(Client(url).stream(BYTES))
