"""The client library, as a program imports it, against the real graph."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import jiwer
import jsonschema
import numpy as np
import pytest
import websockets

from auricle.audio.pcm import to_int16
from auricle.client import (
    BadRequest,
    Client,
    Done,
    Final,
    Partial,
    Ready,
    Source,
    SpeechStarted,
    StreamEvent,
    SyncClient,
)
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server
from tests import browser

pytestmark = pytest.mark.end_to_end
DEADLINE_SECONDS = 120
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
HELLO = to_int16(recordings.samples("hello"))
PACKETS = [HELLO[at : at + 1_600] for at in range(0, len(HELLO), 1_600)]


async def streamed(server: Server, source: Source, **options: Any) -> list[StreamEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in Client(server.url).stream(source, **options)]


def text(events: list[StreamEvent]) -> str:
    assert isinstance(events[-1], Done)
    return events[-1].text


async def of_bytes() -> AsyncIterator[bytes]:
    data = HELLO.astype("<i2").tobytes()
    for at in range(0, len(data), 3_201):  # samples are split between packets
        yield data[at : at + 3_201]


def blocking() -> Iterator[np.ndarray]:
    yield from PACKETS


async def test_every_kind_of_source_gives_the_words_and_their_events(server: Server) -> None:
    expected = text(await streamed(server, HELLO, partials=False))
    assert expected
    sources: list[Source] = [
        recordings.path("hello"),
        HELLO.astype("<i2").tobytes(),
        HELLO.astype(np.float32) / 32_768,
        of_bytes(),
        blocking(),
    ]
    for source in sources:
        events = await streamed(server, source, partials=False)
        assert text(events) == expected
        assert isinstance(events[0], Ready)
        assert any(isinstance(event, SpeechStarted) for event in events)
        finals = [event.text for event in events if isinstance(event, Final)]
        assert " ".join(filter(None, finals)) == expected


async def test_samples_of_another_rate_are_resampled_by_the_server(server: Server) -> None:
    up = np.repeat(HELLO, 3)
    events = await streamed(server, up, sample_rate=48_000, partials=False)
    assert text(events) == text(await streamed(server, HELLO, partials=False))
    assert isinstance(events[-1], Done)
    assert events[-1].usage.audio_ms == len(HELLO) // 16


async def test_text_comes_while_the_source_is_still_speaking(server: Server) -> None:
    heard = asyncio.Event()

    async def until_heard() -> AsyncIterator[np.ndarray]:
        for packet in PACKETS:
            yield packet
        await heard.wait()

    found: list[StreamEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        async with aclosing(Client(server.url).stream(until_heard(), chunk_ms=320)) as events:
            async for event in events:
                found.append(event)
                if isinstance(event, Partial):
                    heard.set()
    assert heard.is_set()
    assert isinstance(found[-1], Done)


async def test_a_wrong_option_is_refused_by_its_name(server: Server) -> None:
    with pytest.raises(BadRequest, match=r"chunk_ms 5 .* from 80 to 10000") as refused:
        await streamed(server, HELLO, chunk_ms=5)
    assert refused.value.param == "chunk_ms"
    with pytest.raises(BadRequest, match="threshold 2 cannot be used") as refused:
        await streamed(server, HELLO, endpointing={"threshold": 2})
    assert refused.value.param == "endpointing.threshold"


async def test_what_a_source_raises_is_raised_and_the_session_is_over(server: Server) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield PACKETS[0]
        raise LookupError("the telephone has hung up")

    with pytest.raises(LookupError, match="hung up"):
        await streamed(server, failing())


async def test_a_recording_is_transcribed_and_refused_as_what_it_is(server: Server) -> None:
    client = Client(server.url)
    transcript = await client.transcribe(recordings.path("hello"))
    assert transcript.text == text(await streamed(server, HELLO, partials=False))
    assert transcript.duration == pytest.approx(len(HELLO) / 16_000, abs=0.01)
    assert " ".join(segment.text for segment in transcript.segments) == transcript.text
    with pytest.raises(BadRequest, match="README") as refused:
        await client.transcribe(ROOT / "README.md")
    assert refused.value.code == "undecodable_audio"
    with pytest.raises(BadRequest, match="served here: ") as refused:
        await client.transcribe(recordings.path("hello"), model="nobody's")
    assert refused.value.code == "model_not_found"


def test_leaving_early_leaves_no_thread(server: Server) -> None:
    before = threading.active_count()
    events = SyncClient(server.url).stream(iter(PACKETS))
    assert isinstance(next(events), Ready)
    events.close()
    for thread in threading.enumerate():
        if thread.name.startswith("auricle-client"):
            thread.join(DEADLINE_SECONDS)
    assert threading.active_count() <= before


async def test_every_message_on_the_wire_is_as_published(server: Server) -> None:
    document = json.loads((ROOT / "docs/asyncapi.json").read_text())
    schemas = document["components"]["schemas"]
    told = [one["$ref"].rsplit("/", 1)[1] for one in document["operations"]["tell"]["messages"]]
    kinds = {schemas[name]["properties"]["type"]["const"]: schemas[name] for name in told}
    url = server.url.replace("http", "ws") + document["channels"]["stream"]["address"]
    seen = set()
    for field in ({"chunk_ms": 320}, {"mood": "good"}):
        async with asyncio.timeout(DEADLINE_SECONDS), websockets.connect(url) as socket:
            # The server closes a rejected session before the client has sent everything.
            with suppress(websockets.ConnectionClosedError):
                await socket.send(json.dumps({"type": "start", "sample_rate": 16_000, **field}))
                await socket.send(HELLO.astype("<i2").tobytes())
                await socket.send('{"type": "end"}')
            with suppress(websockets.ConnectionClosedError):
                async for line in socket:
                    message = json.loads(line)
                    seen.add(message["type"])
                    schema = kinds[message["type"]] | {"components": {"schemas": schemas}}
                    jsonschema.Draft202012Validator(schema).validate(message)
                    assert message.keys() <= schema["properties"].keys()
    assert {"ready", "speech_started", "final", "done", "error"} <= seen


@browser.needs_node
async def test_a_browser_gets_the_words(server: Server, tmp_path: Path) -> None:
    events = await browser.transcribed(server.url, HELLO.astype("<i2").tobytes(), tmp_path)
    assert [events[0]["type"], events[-1]["type"]] == ["ready", "done"]
    assert jiwer.wer(recordings.words("hello"), events[-1]["text"]) <= 0.34


def a_sound_card() -> types.ModuleType:
    """A fake `sounddevice` whose microphone yields a recording, and then silence."""
    module = types.ModuleType("sounddevice")

    class Stream:
        def __init__(self, **_: object) -> None:
            silence = np.zeros(1_600, np.int16)
            self._left = itertools.chain(PACKETS[:-1], itertools.repeat(silence))

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *_: object) -> None: ...

        def read(self, _samples: int) -> tuple[bytes, bool]:
            time.sleep(0.02)  # the device's pace, a little faster than a real one's
            return next(self._left).tobytes(), False

    module.RawInputStream = Stream  # type: ignore[attr-defined]
    module.PortAudioError = OSError  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("number", range(4))
def test_the_examples_in_the_docs_print_the_words(
    server: Server, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", a_sound_card())
    examples = EXAMPLE.findall((ROOT / "docs/client.md").read_text())
    assert len(examples) == 4
    example = examples[number].replace("http://127.0.0.1:8080", server.url)
    for name in ("talk.mp3", "monday.mp3", "tuesday.mp3"):
        example = example.replace(name, str(recordings.path("hello")))
    last_word = text(asyncio.run(streamed(server, HELLO, partials=False))).split()[-1]
    example = example.replace('"stop"', repr(last_word))
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(example, "docs/client.md", "exec"), {"__name__": "__main__"})
    assert last_word in printed.getvalue()
