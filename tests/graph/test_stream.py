"""The WebSocket, end to end through all processes."""

import asyncio
import contextlib
import json
from itertools import pairwise
from pathlib import Path

import jiwer
import numpy as np
import psutil
import pytest
import soundfile
import websockets

from auricle.audio.decode import read_audio
from auricle.client.stream import Event, stream_file
from auricle_testing import recordings
from auricle_testing.feed import CHUNK, feed
from auricle_testing.server import Server

pytestmark = pytest.mark.end_to_end
WORD_ERRORS = 0.25  # one bad word in four would be noticed by anyone


async def run(server: Server, samples: np.ndarray, **options: object) -> list[Event]:
    return [e async for e in stream_file(server.url, samples, live=False, **options)]


def text(events: list[Event]) -> str:
    return str(events[-1]["text"])


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_a_recording_comes_out_as_its_words(server: Server, name: str) -> None:
    events = await run(server, recordings.samples(name))
    assert [events[0]["type"], events[-1]["type"]] == ["ready", "done"]
    assert jiwer.wer(recordings.words(name), text(events)) <= WORD_ERRORS


def test_nothing_but_the_front_door_can_be_reached_from_elsewhere(server: Server) -> None:
    """The processes listen on loopback and on sockets that only their user may open."""
    addresses = {
        connection.laddr.ip
        for process in server.processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}
    launcher = Path(server.component("Processor").environ()["AURICLE_LAUNCHER"])
    assert launcher.stat().st_mode & 0o777 == 0o600
    for path in (server.discovery, *server.discovery.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # records come and go
            assert not path.stat().st_mode & 0o077, path


async def test_live_text_only_grows_and_ends_as_it_was_committed(server: Server) -> None:
    """Real-time audio lets the server decode each of the 25 grid points, unless a process hangs."""
    events = [e async for e in stream_file(server.url, recordings.samples("market"), live=True)]
    partials = [e for e in events if e["type"] == "partial"]
    assert len(partials) >= 10
    committed: dict[int, str] = {}
    for event in events:
        if event["type"] == "partial":
            assert event["committed"].startswith(committed.get(event["segment"], ""))
            committed[event["segment"]] = event["committed"]
        elif event["type"] == "final":
            assert event["text"].startswith(committed.get(event["segment"], ""))
    assert any(committed.values())
    assert jiwer.wer(recordings.words("market"), text(events)) <= WORD_ERRORS


async def test_words_have_confidence_without_an_aligner(server: Server) -> None:
    start = {"type": "start", "sample_rate": 16_000, "words": True, "word_times": "grid"}
    async with websockets.connect(server.url.replace("http", "ws") + "/v1/audio/stream") as socket:
        await socket.send(json.dumps(start))
        await socket.send((recordings.samples("hello") * 32767).astype("<i2").tobytes())
        await socket.send('{"type": "end"}')
        events = [json.loads(message) async for message in socket]
    finals = [event for event in events if event["type"] == "final" and event["text"]]
    words = [event for event in events if event["type"] == "words"]
    assert finals and [one["segment"] for one in words] == [one["segment"] for one in finals]
    for final, told in zip(finals, words, strict=True):
        assert told["source"] == "commit_grid" and "missing" not in told
        assert "".join(word["text"] for word in told["words"]) == final["text"]
        assert all(0 < word["confidence"] <= 1 for word in told["words"])


async def test_other_formats_and_rates_give_the_same_words(server: Server, tmp_path: Path) -> None:
    samples = recordings.samples("hello")
    stereo = tmp_path / "hello.ogg"
    up = np.repeat(samples, 3)
    soundfile.write(stereo, np.stack([up, up], axis=1), 48_000)
    assert jiwer.wer(recordings.words("hello"), text(await run(server, read_audio(stereo)))) <= 0.34


async def test_client_side_rates_are_resampled_by_the_server(server: Server) -> None:
    async with websockets.connect(server.url.replace("http", "ws") + "/v1/audio/stream") as socket:
        await socket.send(json.dumps({"type": "start", "sample_rate": 48_000}))
        pcm = (np.repeat(recordings.samples("hello"), 3) * 32767).astype("<i2").tobytes()
        for at in range(0, len(pcm), 4_801):  # odd sizes split samples between packets
            await socket.send(pcm[at : at + 4_801])
        await socket.send('{"type": "end"}')
        events = [json.loads(message) async for message in socket]
    assert jiwer.wer(recordings.words("hello"), text(events)) <= 0.34


async def test_a_long_recording_is_cut_into_segments_without_losing_words(server: Server) -> None:
    parts = [recordings.samples(n) for n in ("market", "kitchen", "station")]
    events = await run(server, np.concatenate(parts))
    finals = [e for e in events if e["type"] == "final"]
    assert len(finals) >= 2
    for before, after in pairwise(finals):
        assert before["end_ms"] <= after["start_ms"]
    said = " ".join(recordings.words(n) for n in ("market", "kitchen", "station"))
    assert jiwer.wer(said, text(events)) <= WORD_ERRORS


async def test_speech_is_announced_and_silence_around_it_costs_nothing(server: Server) -> None:
    speech = recordings.samples("hello") * np.float32(0.8)  # not in any cache yet
    noise = np.random.default_rng(0).standard_normal(60 * recordings.SAMPLE_RATE) * 1e-3
    silence = noise.astype(np.float32)
    alone = (await run(server, speech))[-1]["usage"]
    events = await run(server, np.concatenate([silence, speech, silence]))
    kinds = [e["type"] for e in events]
    assert kinds[:2] == ["ready", "speech_started"]
    assert kinds.count("speech_stopped") == kinds.count("speech_started")
    started = next(e["at_ms"] for e in events if e["type"] == "speech_started")
    assert 60_000 <= started < 61_000
    usage = events[-1]["usage"]
    assert usage["audio_ms"] == 120_000 + len(speech) // 16
    assert usage["decodes"] == alone["decodes"]
    assert jiwer.wer(recordings.words("hello"), text(events)) <= 0.34


async def test_silence_alone_is_no_words_no_decode_and_no_window(server: Server) -> None:
    events = await run(server, np.zeros(30 * recordings.SAMPLE_RATE, np.float32))
    assert [e["type"] for e in events] == ["ready", "done"]
    usage = events[-1]["usage"]
    assert (usage["decodes"], usage["windows_encoded"], usage["audio_ms"]) == (0, 0, 30_000)


async def test_a_forced_language_and_context_are_taken(server: Server) -> None:
    events = await run(server, recordings.samples("hello"), language="english", context="peter hat")
    assert {e["language"] for e in events if e["type"] == "final" and e["text"]} == {"English"}
    assert jiwer.wer(recordings.words("hello"), text(events)) <= 0.34


async def test_sessions_at_the_same_time_do_not_mix(server: Server) -> None:
    alone = {n: text(await run(server, recordings.samples(n))) for n in recordings.NAMES}
    together = await asyncio.gather(*(run(server, recordings.samples(n)) for n in recordings.NAMES))
    assert [text(e) for e in together] == [alone[n] for n in recordings.NAMES]


async def test_the_usage_says_what_the_session_cost(server: Server) -> None:
    fresh = recordings.samples("kitchen") * np.float32(0.9)  # not in any cache yet
    usage = (await run(server, fresh))[-1]["usage"]
    assert usage["audio_ms"] == len(fresh) // 16
    assert usage["decodes"] >= 1
    assert usage["windows_encoded"] >= 2
    assert usage["embedding_bytes_read"] > 0
    assert usage["prompt_tokens"] > usage["cached_tokens"]


async def test_a_client_held_back_for_long_is_not_given_up(server: Server) -> None:
    """Ten minutes at once: while the server pauses reading, a ping remains unanswered."""
    tone = 0.3 * np.sin(np.arange(600 * recordings.SAMPLE_RATE) / 5)
    start = {"type": "start", "sample_rate": recordings.SAMPLE_RATE}
    address = server.url.replace("http", "ws") + "/v1/audio/stream"
    async with websockets.connect(address, ping_timeout=None) as socket:
        await socket.send(json.dumps(start | {"endpointing": {"enabled": False}}))
        pcm = (tone * 32767).astype("<i2").tobytes()
        for at in range(0, len(pcm), 1 << 19):
            await socket.send(pcm[at : at + (1 << 19)])
        await socket.send('{"type": "end"}')
        events = [json.loads(message) async for message in socket]
    assert events[-1]["type"] == "done"
    assert events[-1]["usage"]["audio_ms"] == 600_000


async def test_a_burst_is_answered_to_its_end_before_anything_follows(server: Server) -> None:
    """The pace of `python -m benchmarks.streaming`.

    7.04 s is not a multiple of the amount that the server holds back.
    """
    samples = recordings.minute()[: 20 * CHUNK]
    fed = await feed(server.url, samples, 60.0, in_a_hurry=(3.2, 10.0), answer_seconds=60.0)
    assert len(fed.chunks) == 9
    assert fed.segments[-1][1] == len(samples)
