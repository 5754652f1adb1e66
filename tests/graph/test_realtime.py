"""`WS /v1/realtime` with the official client, and with events no client sends."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jiwer
import numpy as np
import openai
import pytest
import websockets
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from auricle.audio.pcm import g711_table
from auricle_testing import recordings
from auricle_testing.server import Server
from tests.pcm import resampled_pcm

pytestmark = pytest.mark.end_to_end
WORD_ERRORS = 0.25
PREFIX = "conversation.item.input_audio_transcription."
PACKET = 4_800
COSTLY = "\N{MUSICAL SYMBOL G CLEF}" * 500  # four tokens each


@asynccontextmanager
async def connected(server: Server, **audio: object) -> AsyncIterator[AsyncRealtimeConnection]:
    """A transcription session with these settings of `audio.input`."""
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="anything")
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        created = await connection.recv()
        assert created.type == "session.created"
        session: Any = {"type": "transcription", "audio": {"input": audio}}
        await connection.session.update(session=session)
        updated = await connection.recv()
        assert updated.type == "session.updated", updated
        yield connection


async def append(connection: AsyncRealtimeConnection, data: bytes) -> None:
    for start in range(0, len(data), PACKET):
        packet = data[start : start + PACKET]
        await connection.input_audio_buffer.append(audio=base64.b64encode(packet).decode())


async def until(connection: AsyncRealtimeConnection, kind: str) -> list[Any]:
    """Events up to and including the first of `kind`."""
    received: list[Any] = []
    async with asyncio.timeout(120):
        while not received or received[-1].type != kind:
            received.append(await connection.recv())
    return received


async def test_turns_are_found_and_their_text_only_grows(server: Server) -> None:
    async with connected(server) as connection:
        await append(connection, resampled_pcm("hello").tobytes())
        events = await until(connection, PREFIX + "completed")
        kinds = [event.type for event in events]
        started = events[kinds.index("input_audio_buffer.speech_started")]
        stopped = events[kinds.index("input_audio_buffer.speech_stopped")]
        committed = events[kinds.index("input_audio_buffer.committed")]
        done = events[-1]
        assert started.audio_start_ms < stopped.audio_end_ms
        assert started.item_id == stopped.item_id == committed.item_id == done.item_id
        deltas = [event.delta for event in events if event.type == PREFIX + "delta"]
        assert "".join(deltas) == done.transcript
        assert jiwer.wer(recordings.words("hello"), done.transcript) <= 0.34
        segments = [event for event in events if event.type == PREFIX + "segment"]
        assert " ".join(segment.text for segment in segments) == done.transcript
        assert done.usage.type == "duration"


async def test_the_next_turn_follows_the_one_before(server: Server) -> None:
    async with connected(server) as connection:
        await append(
            connection, np.concatenate([resampled_pcm("hello"), resampled_pcm("station")]).tobytes()
        )
        first = (await until(connection, PREFIX + "completed"))[-1]
        second = await until(connection, PREFIX + "completed")
        assert second[-1].item_id != first.item_id
        text = f"{first.transcript} {second[-1].transcript}"
        spoken = f"{recordings.words('hello')} {recordings.words('station')}"
        # `station` may hold a pause of its own.
        while jiwer.wer(spoken, text) > WORD_ERRORS:
            text += " " + (await until(connection, PREFIX + "completed"))[-1].transcript


async def test_a_client_may_end_a_turn_that_was_found(server: Server) -> None:
    async with connected(server) as connection:
        await append(connection, resampled_pcm("hello", pause_seconds=0.0).tobytes())
        await until(connection, "input_audio_buffer.speech_started")
        await connection.input_audio_buffer.commit()
        events = await until(connection, PREFIX + "completed")
        kinds = [event.type for event in events]
        assert "error" not in kinds
        assert kinds.count("input_audio_buffer.committed") == 1
        assert jiwer.wer(recordings.words("hello"), events[-1].transcript) <= 0.34


async def test_manual_turns_end_at_the_commit(server: Server) -> None:
    async with connected(server, turn_detection=None) as connection:
        await append(connection, resampled_pcm("kitchen").tobytes())
        await connection.input_audio_buffer.commit()
        events = await until(connection, PREFIX + "completed")
        assert not [e for e in events if "speech_" in e.type]
        assert len([e for e in events if e.type == "input_audio_buffer.committed"]) == 1
        assert jiwer.wer(recordings.words("kitchen"), events[-1].transcript) <= WORD_ERRORS


async def test_a_manual_turn_of_silence_has_no_words(server: Server) -> None:
    async with connected(server, turn_detection=None) as connection:
        await append(connection, bytes(24_000 * 2))
        await connection.input_audio_buffer.commit()
        assert (await until(connection, PREFIX + "completed"))[-1].transcript == ""


async def test_cleared_audio_is_forgotten(server: Server) -> None:
    async with connected(server, turn_detection=None) as connection:
        await append(connection, resampled_pcm("market").tobytes())
        await connection.input_audio_buffer.clear()
        assert (await until(connection, "input_audio_buffer.cleared"))[-1]
        await append(connection, resampled_pcm("hello").tobytes())
        await connection.input_audio_buffer.commit()
        done = (await until(connection, PREFIX + "completed"))[-1]
        assert jiwer.wer(recordings.words("hello"), done.transcript) <= 0.34


@pytest.mark.parametrize("kind", ["audio/pcm 16000", "audio/pcmu", "audio/pcma"])
async def test_every_format_gives_the_words(server: Server, kind: str) -> None:
    name, _, rate = kind.partition(" ")
    wanted: dict[str, object] = {"type": name, **({"rate": int(rate)} if rate else {})}
    samples = resampled_pcm("market", int(rate or 8_000))
    if name == "audio/pcm":
        data = samples.tobytes()
    else:
        table = g711_table("ULAW" if name == "audio/pcmu" else "ALAW").astype(np.int32)
        order = np.argsort(table)
        at = np.clip(np.searchsorted(table[order], samples), 0, 255)
        codes = order[at]
        data = codes.astype(np.uint8).tobytes()
    async with connected(server, format=wanted, turn_detection=None) as connection:
        await append(connection, data)
        await connection.input_audio_buffer.commit()
        done = (await until(connection, PREFIX + "completed"))[-1]
    words = recordings.words("market")
    if name == "audio/pcm":
        assert jiwer.wer(words, done.transcript) <= WORD_ERRORS
    else:
        # The bundled model was not trained on telephone audio, so this checks only that words
        # arrive.
        spoken = set(words.split())
        assert len(spoken & set(done.transcript.split())) >= 0.4 * len(spoken)


async def test_partial_text_comes_as_an_event_of_ours(server: Server) -> None:
    partial = "auricle.transcription.partial"
    # Keep the turn open until a partial: after an early commit, the processor sends none.
    async with connected(server, turn_detection=None) as connection:
        await append(connection, resampled_pcm("market").tobytes())
        events = await until(connection, partial)
        await connection.input_audio_buffer.commit()
        events += await until(connection, PREFIX + "completed")
        items = {event.item_id for event in events if event.type == partial}
        assert items == {events[-1].item_id}


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        (
            {"type": "response.create"},
            "invalid_event",
            "not an event that is supported (session.update",
        ),
        ({"type": "input_audio_buffer.append"}, "invalid_event", "audio is missing"),
        ({"type": "input_audio_buffer.append", "audio": "%%"}, "invalid_event", "audio"),
        (
            {"type": "input_audio_buffer.commit"},
            "input_audio_buffer_commit_empty",
            "nothing to commit: no turn is open",
        ),
        (
            {"type": "session.update", "session": {"voice": "x"}},
            "unknown_parameter",
            "session.voice is not supported",
        ),
        (
            {
                "type": "session.update",
                "session": {"audio": {"input": {"transcription": {"model": "nope"}}}},
            },
            "model_not_found",
            "the model 'nope' does not exist; served here: demo",
        ),
    ],
)
async def test_a_bad_event_is_answered_and_the_session_goes_on(
    server: Server, event: dict[str, object], code: str, message: str
) -> None:
    async with connected(server) as connection:
        await connection.send({**event, "event_id": "mine"})  # type: ignore[typeddict-item]
        refused = await connection.recv()
        assert refused.type == "error"
        assert refused.error.code == code
        assert message in refused.error.message
        assert refused.error.event_id == "mine"
        await append(connection, resampled_pcm("hello").tobytes())
        assert (await until(connection, PREFIX + "completed"))[-1].transcript


async def test_a_turn_that_fails_fails_alone(server: Server) -> None:
    async with connected(server, transcription={"prompt": COSTLY}) as connection:
        await append(connection, resampled_pcm("hello").tobytes())
        failed = (await until(connection, PREFIX + "failed"))[-1]
        assert "tokens of the model" in failed.error.message
        session: Any = {"audio": {"input": {"transcription": {"prompt": ""}}}}
        await connection.session.update(session=session)
        await append(connection, resampled_pcm("hello").tobytes())
        done = (await until(connection, PREFIX + "completed"))[-1]
        assert done.item_id != failed.item_id
        assert jiwer.wer(recordings.words("hello"), done.transcript) <= 0.34


async def test_format_and_turn_detection_cannot_change_within_a_turn(server: Server) -> None:
    async with connected(server, turn_detection=None) as connection:
        await append(connection, resampled_pcm("market").tobytes())
        session: Any = {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}
        await connection.session.update(session=session)
        events = await until(connection, "error")
        assert "cannot change within a turn" in events[-1].error.message
        await connection.input_audio_buffer.commit()
        done = (await until(connection, PREFIX + "completed"))[-1]
        assert jiwer.wer(recordings.words("market"), done.transcript) <= WORD_ERRORS


async def test_a_manual_turn_needs_some_audio(server: Server) -> None:
    async with connected(server, turn_detection=None) as connection:
        await append(connection, bytes(100))
        await connection.input_audio_buffer.commit()
        refused = await connection.recv()
        assert refused.error.code == "input_audio_buffer_commit_empty"
        assert "a turn needs 100 ms of audio, 2 ms were sent" in refused.error.message


@pytest.mark.parametrize("detects", [True, False])
async def test_every_event_is_of_the_official_clients_types(server: Server, detects: bool) -> None:
    """The client itself checks nothing."""
    options: dict[str, Any] = {} if detects else {"turn_detection": None}
    kinds = set()
    update: Any = {"include": ["item.input_audio_transcription.logprobs"]}
    async with asyncio.timeout(120), connected(server, **options) as connection:
        await connection.session.update(session=update)
        await append(connection, resampled_pcm("hello").tobytes())
        await connection.input_audio_buffer.commit()
        await connection.input_audio_buffer.clear()
        await connection.input_audio_buffer.commit()
        while not {"error", PREFIX + "completed"} <= kinds:
            data = await connection.recv_bytes()
            kind = json.loads(data)["type"]
            kinds.add(kind)
            if not kind.startswith("auricle."):
                event = TypeAdapter(RealtimeServerEvent).validate_json(data, strict=True)
                assert event.type == kind
    assert PREFIX + "segment" in kinds


async def test_binary_frames_end_the_session_with_a_reason(server: Server) -> None:
    async with websockets.connect(f"{server.url.replace('http', 'ws')}/v1/realtime") as socket:
        await socket.recv()
        await socket.send(b"\x00\x00")
        error = json.loads(await socket.recv())
        assert "binary frames are not part of this protocol" in error["error"]["message"]
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


async def test_an_unknown_model_in_the_address_is_refused(server: Server) -> None:
    address = f"{server.url.replace('http', 'ws')}/v1/realtime?model=nope"
    async with websockets.connect(address) as socket:
        error = json.loads(await socket.recv())
        assert "the model 'nope' does not exist; served here: demo" in error["error"]["message"]
