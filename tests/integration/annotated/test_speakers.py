"""Speakers of words, with the real speaker model."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import soundfile
import websockets
from openai.types.audio import TranscriptionDiarized

from auricle.client import Client, Final, Speakers, StreamEvent
from auricle.core.errors import WorkerUnavailable
from auricle_testing.launcher import Launcher
from auricle_testing.server import ANSWER_SECONDS, READY_SECONDS, Server, eventually
from tests.dialogue import RATE, TURNS, conversation

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
DEADLINE_SECONDS = 120
# Text committed before the end of a segment, and so its words, depends on the time of decodes.
ASKED: dict[str, Any] = {"partials": False, "diarize": True}
SPEECH = conversation()


async def streamed(server: Server, **options: Any) -> list[StreamEvent]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for event in Client(server.url).stream(SPEECH, **options)]


def finals(events: list[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final) and event.text]


def speakers(events: list[StreamEvent]) -> dict[int, Speakers]:
    return {event.segment: event for event in events if isinstance(event, Speakers)}


def numbers(events: list[StreamEvent]) -> list[set[int]]:
    return [{part.speaker for part in one.parts} for one in speakers(events).values()]


async def test_each_final_is_followed_by_who_said_it(server: Server) -> None:
    events = await streamed(server, **ASKED)
    found = speakers(events)
    assert len(finals(events)) == len(TURNS)
    assert found.keys() == {final.segment for final in finals(events)}
    for final in finals(events):
        one = found[final.segment]
        assert events.index(one) > events.index(final)
        assert (one.missing, one.source) == (None, "commit_grid")
        assert "".join(part.text for part in one.parts) == final.text
        assert final.start_ms <= one.parts[0].start_ms < one.parts[-1].end_ms <= final.end_ms
    assert numbers(events) == [{1}, {2}, {1}, {2}]


async def test_sessions_at_once_do_not_hear_each_other(server: Server) -> None:
    alone = speakers(await streamed(server, **ASKED))
    together = await asyncio.gather(*(streamed(server, **ASKED) for _ in range(3)))
    for events in together:
        assert speakers(events) == alone


async def test_who_does_not_ask_is_told_nothing(server: Server) -> None:
    events = await streamed(server, partials=False)
    assert finals(events) and not speakers(events)


async def killed(server: Server, component: str, usual: list[StreamEvent]) -> list[StreamEvent]:
    """Stream in real time, and kill a process after the speakers of the second segment."""
    events: list[StreamEvent] = []
    process, dead = server.component(component), False
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in Client(server.url).stream(SPEECH, live=True, **ASKED):
            events.append(event)
            if len(speakers(events)) == 2 and not dead:
                process.send_signal(signal.SIGKILL)
                dead = True
    assert dead and finals(events) == finals(usual)
    return events


async def test_a_worker_that_dies_costs_no_text_and_no_numbers(server: Server) -> None:
    """Speakers are the same, possibly later, or are reported missing; they are never wrong."""
    usual = await streamed(server, **ASKED)
    found = speakers(await killed(server, "DiarizeWorker", usual))
    assert found.keys() == speakers(usual).keys()
    for segment, one in found.items():
        assert one == speakers(usual)[segment] or (one.missing and not one.parts)


async def test_speakers_keep_their_numbers_when_the_processor_dies(server: Server) -> None:
    usual = await streamed(server, **ASKED)
    events = await killed(server, "Processor", usual)
    told = [speakers(events)[final.segment] for final in finals(events)]
    assert all(one.missing or one == speakers(usual)[one.segment] for one in told)
    assert not told[-1].missing


def recording() -> bytes:
    """The conversation as a FLAC file."""
    file = io.BytesIO()
    soundfile.write(file, SPEECH, RATE, format="FLAC")
    return file.getvalue()


async def diarized(server: Server) -> TranscriptionDiarized:
    """The transcription that OpenAI's client receives."""
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await client.audio.transcriptions.create(
            file=("talk.flac", recording()), model="demo", response_format="diarized_json"
        )


async def test_the_client_gets_words_and_speakers_of_a_recording_in_one_answer(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "talk.flac"
    path.write_bytes(recording())
    told = await Client(server.url).transcribe(path, words=True, speakers=True)
    expected = await diarized(server)
    assert [(one.speaker, one.text) for one in told.speakers] == [
        (one.speaker, one.text) for one in expected.segments
    ]
    assert [word.word.lower() for word in told.words] == told.text.lower().split()
    assert all(word.confidence is not None for word in told.words)
    assert all(segment.avg_logprob is not None for segment in told.segments)
    assert not told.warnings


def warnings(told: TranscriptionDiarized) -> list[str]:
    return list((told.model_extra or {}).get("warnings", []))


async def test_a_recording_has_the_speakers_of_a_session(server: Server) -> None:
    events = await streamed(server, **ASKED)
    told = await diarized(server)
    assert told.text == " ".join(final.text for final in finals(events))
    expected = [
        ("AB"[part.speaker - 1], part.start_ms, part.end_ms)
        for one in speakers(events).values()
        for part in one.parts
        if part.text
    ]
    assert [one.speaker for one in told.segments] == [speaker for speaker, *_ in expected]
    for one, (_, start_ms, end_ms) in zip(told.segments, expected, strict=True):
        assert (one.start, one.end) == pytest.approx((start_ms / 1000, end_ms / 1000), abs=0.1)
    assert " ".join(one.text for one in told.segments) == told.text
    assert warnings(told) == []


async def test_each_word_of_deepgrams_recording_has_its_speaker(server: Server) -> None:
    told = await diarized(server)
    async with httpx.AsyncClient(timeout=DEADLINE_SECONDS) as client:
        url = f"{server.url}/v1/listen?diarize=true&utterances=true"
        answer = (await client.post(url, content=recording())).json()
    (alternative,) = answer["results"]["channels"][0]["alternatives"]
    said = [(one.speaker, word) for one in told.segments for word in one.text.split()]
    assert alternative["transcript"] == told.text
    assert [("AB"[w["speaker"]], w["punctuated_word"]) for w in alternative["words"]] == said
    assert [
        ("AB"[one["speaker"]], one["transcript"]) for one in answer["results"]["utterances"]
    ] == [(one.speaker, one.text) for one in told.segments]


def spoken(events: list[StreamEvent]) -> list[tuple[int, str]]:
    """Each word of our own protocol and its speaker."""
    parts = [part for one in speakers(events).values() for part in one.parts]
    return [(part.speaker, word) for part in parts for word in part.text.split()]


async def listened(server: Server, path: str, end: str) -> list[dict[str, Any]]:
    """All messages of a live session of another protocol, with the conversation."""
    told: list[dict[str, Any]] = []
    address = server.url.replace("http", "ws") + path
    async with asyncio.timeout(DEADLINE_SECONDS), websockets.connect(address) as socket:
        audio = SPEECH.astype("<i2").tobytes()
        for start in range(0, len(audio), 32_000):
            await socket.send(audio[start : start + 32_000])
        await socket.send(end)
        async for message in socket:
            told.append(json.loads(message))
    return told


async def test_deepgrams_live_words_have_the_speakers_of_our_own_protocol(server: Server) -> None:
    query = "encoding=linear16&sample_rate=16000&diarize=true"
    told = await listened(server, f"/v1/listen?{query}", '{"type": "CloseStream"}')
    results = [m["channel"]["alternatives"][0] for m in told if m["type"] == "Results"]
    own = await streamed(server, partials=False, diarize=True)
    assert spoken(own) == [
        (word["speaker"] + 1, word["punctuated_word"]) for one in results for word in one["words"]
    ]
    assert {word["speaker"] for one in results for word in one["words"]} == {0, 1}
    assert told[-1]["warnings"] == []


async def test_assemblyais_turns_have_the_speakers_of_our_own_protocol(server: Server) -> None:
    query = "sample_rate=16000&speaker_labels=true&max_speakers=2&include_partial_turns=false"
    told = await listened(server, f"/v3/ws?{query}", '{"type": "Terminate"}')
    ends = [message for message in told if message.get("end_of_turn")]
    own = await streamed(server, partials=False, diarize=True, max_speakers=2)
    assert spoken(own) == [
        ("AB".index(word["speaker"]) + 1, word["text"]) for turn in ends for word in turn["words"]
    ]
    assert [turn["speaker_label"] for turn in ends] == ["A", "B", "A", "B"]
    assert all("warnings" not in message for message in told)


async def test_one_speaker_at_most_is_one_in_assemblyais_turns(server: Server) -> None:
    query = "sample_rate=16000&speaker_labels=true&max_speakers=1"
    told = await listened(server, f"/v3/ws?{query}", '{"type": "Terminate"}')
    assert {turn["speaker_label"] for turn in told if turn.get("end_of_turn")} == {"A"}


async def test_deepgrams_live_text_comes_without_the_worker(server: Server) -> None:
    """Speakers are the same or are missing, which the last message reports."""
    query = "encoding=linear16&sample_rate=16000&diarize=true"
    path, end = f"/v1/listen?{query}", '{"type": "CloseStream"}'
    usual = await listened(server, path, end)
    server.component("DiarizeWorker").send_signal(signal.SIGKILL)
    told = await listened(server, path, end)
    assert transcripts(told) == transcripts(usual)
    known = [deepgrams(message) for message in told if deepgrams(message)]
    assert all(one in [deepgrams(message) for message in usual] for one in known)
    assert bool(told[-1]["warnings"]) == (len(known) < len(TURNS))


def transcripts(told: list[dict[str, Any]]) -> list[str]:
    results = [m["channel"]["alternatives"][0] for m in told if m["type"] == "Results"]
    return [one["transcript"] for one in results if one["transcript"]]


def deepgrams(message: dict[str, Any]) -> list[tuple[int, str]]:
    """The words of a result with their speakers; empty if these are missing."""
    if message["type"] != "Results":
        return []
    words = message["channel"]["alternatives"][0]["words"]
    return [(word["speaker"], word["word"]) for word in words if "speaker" in word]


async def test_a_recordings_text_comes_without_the_worker(server: Server) -> None:
    """Speakers are the same or are reported missing; they are never wrong."""
    usual = await diarized(server)
    server.component("DiarizeWorker").send_signal(signal.SIGKILL)
    told = await diarized(server)
    assert told.text == usual.text
    right = {(one.speaker, one.text) for one in usual.segments}
    unknown = [one for one in told.segments if one.speaker == "unknown"]
    assert all(one in unknown or (one.speaker, one.text) in right for one in told.segments)
    assert bool(unknown) == bool(warnings(told))


async def test_requests_for_speakers_are_refused_without_the_pool(server: Server) -> None:
    """Sessions that want none are served, and so the frontend is ready."""
    launcher = Launcher(server)

    def missing() -> list[str]:
        answer = httpx.get(f"{server.url}/health", timeout=ANSWER_SECONDS)
        assert answer.status_code == 200
        found: list[str] = answer.json()["missing"]
        return found

    launcher.scale("DiarizeWorker", 0)
    try:
        await eventually(lambda: missing() == ["diarize_worker"], READY_SECONDS)
        with pytest.raises(WorkerUnavailable, match="no diarize_worker of this server is running"):
            await streamed(server, **ASKED)
        assert finals(await streamed(server, partials=False))
    finally:
        launcher.scale("DiarizeWorker", 1)
    await eventually(lambda: not missing(), READY_SECONDS)
    assert speakers(await streamed(server, **ASKED))
