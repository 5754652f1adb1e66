"""Deepgram's API with the official client, unmodified: live, with turns, and for recordings."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import websockets

from auricle.client.stream import stream_file
from auricle_testing import recordings
from auricle_testing.server import ANSWER_SECONDS, ROOT, Server
from tests.pcm import PACKET, pcm

deepgram = pytest.importorskip("deepgram", reason="run make setup")
from deepgram.environment import DeepgramClientEnvironment  # noqa: E402
from deepgram.errors import BadRequestError  # noqa: E402

pytestmark = pytest.mark.end_to_end
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/deepgram.md").read_text(), re.DOTALL)


@asynccontextmanager
async def listening(server: Server, **options: Any) -> AsyncIterator[Any]:
    client = deepgram_client(server)
    audio = {"model": "demo", "encoding": "linear16", "sample_rate": 16_000}
    async with client.listen.v1.connect(**audio | options) as connection:
        yield connection


async def send(connection: Any, audio: bytes) -> None:
    for start in range(0, len(audio), PACKET):
        await connection.send_media(audio[start : start + PACKET])


async def rest(connection: Any) -> list[Any]:
    """The remaining messages of the session."""
    async with asyncio.timeout(120):
        return [message async for message in connection]


def text(messages: list[Any]) -> str:
    finals = [m.channel.alternatives[0].transcript for m in messages if is_final(m)]
    return " ".join(final for final in finals if final)


def is_final(message: Any) -> bool:
    return bool(message.type == "Results" and message.is_final)


async def test_the_words_are_those_of_our_own_protocol(server: Server) -> None:
    for name in ("hello", "station"):
        samples = recordings.samples(name)
        own = [e async for e in stream_file(server.url, samples, live=False)]
        async with listening(server) as connection:
            await send(connection, pcm(name))
            await connection.send_close_stream()
            messages = await rest(connection)
        assert text(messages) == own[-1]["text"]
        assert messages[-1].type == "Metadata"
        assert messages[-1].sha256 == hashlib.sha256(pcm(name)).hexdigest()
        assert messages[-1].duration == pytest.approx(len(samples) / 16_000, abs=0.001)
        assert all(m.is_final for m in messages[:-1])
        for message in messages[:-1]:
            check_words(message)


def check_words(message: Any) -> None:
    """Check the words of any `Results`: times of decodes, and the model's confidence."""
    (told,) = message.channel.alternatives
    assert " ".join(word.punctuated_word for word in told.words) == told.transcript
    times = [time for word in told.words for time in (word.start, word.end)]
    assert times == sorted(times)
    within = [message.start, *times, message.start + message.duration]
    assert all(a <= b + 0.001 for a, b in pairwise(within))  # times of words are whole ms
    assert all(0.0 < word.confidence <= 1.0 for word in told.words)
    if told.words:
        mean = np.mean([word.confidence for word in told.words])
        assert told.confidence == pytest.approx(mean, abs=1e-3)


async def test_each_channel_of_a_connection_has_its_own_words(server: Server) -> None:
    names = ("hello", "station")
    own = [
        [e async for e in stream_file(server.url, recordings.samples(name), live=False)]
        for name in names
    ]
    first, second = (np.frombuffer(pcm(name), "<i2") for name in names)
    both = np.zeros((max(len(first), len(second)), 2), "<i2")
    both[: len(first), 0], both[: len(second), 1] = first, second
    async with listening(server, channels=2, multichannel=True) as connection:
        await send(connection, both.tobytes())
        await connection.send_close_stream()
        messages = await rest(connection)
    results = [m for m in messages if m.type == "Results"]
    said = [text([m for m in results if m.channel_index == [n, 2]]) for n in (0, 1)]
    assert said == [events[-1]["text"] for events in own]
    assert messages[-1].channels == 2


async def test_an_utterance_is_told_from_its_start_to_its_end(server: Server) -> None:
    asked = {"vad_events": True, "utterance_end_ms": 1000, "interim_results": True}
    async with listening(server, **asked, endpointing=300, smart_format=True) as connection:
        await send(connection, pcm("hello", silence_seconds=2.0))
        messages: list[Any] = []
        async with asyncio.timeout(120):
            while not messages or messages[-1].type != "UtteranceEnd":
                messages.append(await connection.recv())
        kinds = [message.type for message in messages]
        assert "SpeechStarted" in kinds
        results = [message for message in messages if message.type == "Results"]
        assert not results[0].is_final
        for result in results:
            check_words(result)
        assert results[-1].is_final and results[-1].speech_final
        await connection.send_close_stream()
        (metadata,) = await rest(connection)
        assert metadata.warnings == ["smart_format has no effect"]


async def test_finalize_gives_the_text_at_once_and_the_session_goes_on(server: Server) -> None:
    async with listening(server) as connection:
        await send(connection, pcm("hello"))
        await connection.send_finalize()
        messages: list[Any] = []
        async with asyncio.timeout(120):
            while not messages or not messages[-1].from_finalize:
                messages.append(await connection.recv())
        first = text(messages)
        assert first
        await connection.send_keep_alive()
        await connection.send_finalize()  # during silence, so the result is empty
        empty = await connection.recv()
        assert empty.from_finalize and not text([empty])
        await send(connection, pcm("hello"))
        await connection.send_close_stream()
        assert text(await rest(connection))


@pytest.mark.parametrize(
    ("options", "code"),
    [({"channels": 2}, "unsupported_value"), ({"model": "x"}, "model_not_found")],
)
async def test_the_client_gets_the_reason_of_a_refusal(
    server: Server, options: dict[str, Any], code: str
) -> None:
    async with listening(server, **options) as connection:
        error = await connection.recv()
        assert (error.type, error.variant) == ("Error", code)
        with pytest.raises(
            websockets.ConnectionClosedError, match=re.escape(error.description[:80])
        ):
            await connection.recv()


def deepgram_client(server: Server) -> Any:
    url = server.url
    environment = DeepgramClientEnvironment(
        base=url, production=url.replace("http", "ws"), agent=url, agent_rest=url
    )
    key = "any"  # the graph has no keys
    return deepgram.AsyncDeepgramClient(api_key=key, environment=environment)


async def transcribed(server: Server, name: str, audio: bytes) -> str:
    """The text of a recording from OpenAI's API."""
    async with httpx.AsyncClient(base_url=server.url, timeout=ANSWER_SECONDS) as client:
        answer = await client.post(
            "/v1/audio/transcriptions", data={"model": "demo"}, files={"file": (name, audio)}
        )
    return str(answer.json()["text"])


async def test_turns_have_the_words_of_our_own_protocol(server: Server) -> None:
    """Two recordings with a silence between them, which ends a turn and is announced first.

    Their words do not depend on where in the silence a turn begins.
    """
    own = " ".join(
        [
            [e async for e in stream_file(server.url, recordings.samples(name), live=False)][-1][
                "text"
            ]
            for name in ("hello", "kitchen")
        ]
    )
    audio = {"model": "demo", "encoding": "linear16", "sample_rate": 16_000}
    asked = {"eot_threshold": 0.9, "eager_eot_threshold": 0.7}
    async with deepgram_client(server).listen.v2.connect(**audio | asked) as connection:
        await send(connection, pcm("hello", silence_seconds=4.0) + pcm("kitchen"))
        await connection.send_force_end_turn()
        turns: list[Any] = []
        async with asyncio.timeout(120):
            while not turns or getattr(turns[-1], "trigger", None) != "manual":
                turns.append(await connection.recv())
        await connection.send_configure({"type": "Configure", "thresholds": {"eot_threshold": 1.0}})
        await connection.send_close_stream()
        (configured,) = await rest(connection)
    assert turns[0].type == "Connected"
    assert configured.type == "ConfigureSuccess" and configured.thresholds.eot_threshold == 1.0
    told = [turn for turn in turns if turn.type == "TurnInfo"]
    assert [turn.sequence_id for turn in turns] == list(range(len(turns)))
    ends = [turn for turn in told if turn.event == "EndOfTurn"]
    assert " ".join(turn.transcript for turn in ends) == own
    assert [turn.turn_index for turn in ends] == list(range(len(ends)))
    assert told[0].event == "StartOfTurn"
    for before, turn in pairwise(told):
        # The graph's turn model computes the confidence, which differs between kinds of CPUs.
        if turn.event == "EndOfTurn" and 0.7 <= turn.end_of_turn_confidence < 0.9:
            assert (before.event, before.transcript) == ("EagerEndOfTurn", turn.transcript)
        assert turn.event != "TurnResumed" or before.event == "EagerEndOfTurn"


async def test_a_recording_has_the_words_that_it_has_by_openais_api(server: Server) -> None:
    for name in ("hello", "station"):
        audio = recordings.path(name).read_bytes()
        answer = await deepgram_client(server).listen.v1.media.transcribe_file(
            request=audio, model="demo", smart_format=True, utterances=True
        )
        (channel,) = answer.results.channels
        words = await transcribed(server, f"{name}.flac", audio)
        assert channel.alternatives[0].transcript == words != ""
        assert " ".join(one.transcript for one in answer.results.utterances) == words
        assert answer.metadata.sha256 == hashlib.sha256(audio).hexdigest()
        seconds = len(recordings.samples(name)) / 16_000
        assert answer.metadata.duration == pytest.approx(seconds, abs=0.001)


async def test_each_channel_of_a_recording_has_its_own_words(server: Server) -> None:
    """The real decoding process reports the number of channels."""
    first, second = recordings.samples("hello"), recordings.samples("station")
    both = np.zeros((max(len(first), len(second)), 2), np.float32)
    both[: len(first), 0], both[: len(second), 1] = first, second
    file = io.BytesIO()
    soundfile.write(file, both, 16_000, format="FLAC")
    answer = await deepgram_client(server).listen.v1.media.transcribe_file(
        request=file.getvalue(), model="demo", multichannel=True
    )
    said = [one.alternatives[0].transcript for one in answer.results.channels]
    names = ("hello", "station")
    assert said == [await transcribed(server, n, recordings.path(n).read_bytes()) for n in names]


async def test_a_recording_that_cannot_be_used_is_refused_as_deepgram_does(server: Server) -> None:
    media = deepgram_client(server).listen.v1.media
    with pytest.raises(BadRequestError) as refused:
        await media.transcribe_file(request=b"no audio", model="demo")
    assert refused.value.body["err_code"] == "undecodable_audio"
    with pytest.raises(BadRequestError) as refused:
        await media.transcribe_url(url="http://127.0.0.1/x.wav", model="demo")
    assert "send the recording itself" in refused.value.body["err_msg"]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
async def test_the_examples_in_the_docs_print_the_words(server: Server, number: int) -> None:
    names: dict[str, Any] = {
        "AsyncDeepgramClient": deepgram.AsyncDeepgramClient,
        "DeepgramClientEnvironment": DeepgramClientEnvironment,
        "url": server.url,
        "pcm": pcm("hello"),
        "recording": recordings.path("hello").read_bytes(),
    }
    exec(f"async def example():\n{textwrap.indent(EXAMPLES[number], '    ')}", names)
    printed = io.StringIO()
    async with asyncio.timeout(120):
        with redirect_stdout(printed):
            await names["example"]()
    own = [e async for e in stream_file(server.url, recordings.samples("hello"), live=False)]
    assert " ".join(printed.getvalue().split()) == own[-1]["text"]
