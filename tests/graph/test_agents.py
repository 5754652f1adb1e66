"""Agent frameworks' and other clients' own packages, unmodified, on the real graph.

They run in an environment of their own (`make agents-env`). The frameworks hear a recorded
conversation, concurrently, because they stream in real time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from pathlib import Path

import jiwer
import pytest
import soundfile
import websockets

from auricle_testing import recordings
from auricle_testing.faulty_proxy import proxied
from auricle_testing.server import ROOT, Server
from tests.pcm import resampled_pcm

pytestmark = [pytest.mark.end_to_end, pytest.mark.deployment]
PYTHON = ROOT / ".venv-agents/bin/python"
LIVEKIT = ("openai", "openai_live", "deepgram", "flux")
PIPECAT = ("openai", "openai_server_vad", "deepgram")
SAID = ("hello", "station")
SECONDS = 180.0
FINALS = ("final_transcript", "TranscriptionFrame")
INTERIMS = ("interim_transcript", "InterimTranscriptionFrame")
Told = list[tuple[str, str]]  # kind and text of each event


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    return server.url


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The conversation: two recordings, as WAV files."""
    folder = tmp_path_factory.mktemp("agents")
    for name in SAID:
        samples, rate = soundfile.read(recordings.path(name), dtype="int16")
        soundfile.write(folder / f"{name}.wav", samples, rate)
    return [folder / f"{name}.wav" for name in SAID]


@pytest.fixture(scope="module")
def heard(url: str, spoken: list[Path]) -> dict[str, Told]:
    """The events that each plug-in gave its agent."""
    return asyncio.run(_all_heard(url, spoken))


async def _all_heard(url: str, spoken: list[Path]) -> dict[str, Told]:
    ways = [*(("livekit", way) for way in LIVEKIT), *(("pipecat", way) for way in PIPECAT)]
    told = await asyncio.gather(*(_hears(*way, url, spoken) for way in ways))
    return {f"{framework} {way}": one for (framework, way), one in zip(ways, told, strict=True)}


async def _hears(
    framework: str,
    way: str,
    url: str,
    spoken: list[Path],
    on_final: Callable[[], None] | None = None,
) -> Told:
    """Run a framework over the recordings; `on_final` is called after the first final text."""
    assert PYTHON.exists(), "run: make agents-env"
    script = ROOT / f"tests/agents/{framework}_hears.py"
    process = await asyncio.create_subprocess_exec(
        *(str(PYTHON), str(script), way, url, *map(str, spoken)), stdout=PIPE, stderr=DEVNULL
    )
    told: Told = []
    try:
        async with asyncio.timeout(SECONDS):
            assert process.stdout is not None
            async for line in process.stdout:
                event = json.loads(line)
                told.append((event["type"], event["text"]))
                if on_final is not None and event["type"] in FINALS:
                    on_final()
                    on_final = None
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return told


def texts(told: Told, kinds: tuple[str, ...] = FINALS) -> list[str]:
    return [text for kind, text in told if kind in kinds]


@pytest.mark.parametrize("way", [f"livekit {way}" for way in LIVEKIT])
def test_livekits_agents_hear_turns(heard: dict[str, Told], way: str) -> None:
    told = heard[way]
    kinds = [kind for kind, _ in told]
    assert jiwer.wer(" ".join(map(recordings.words, SAID)), " ".join(texts(told))) <= 0.2
    # A start of speech interrupts a speaking agent.
    assert kinds.count("start_of_speech") == kinds.count("end_of_speech") >= len(SAID)
    assert kinds.index("start_of_speech") < kinds.index("interim_transcript")
    assert kinds.index("interim_transcript") < kinds.index("final_transcript")


@pytest.mark.parametrize("way", [f"pipecat {way}" for way in PIPECAT])
def test_pipecats_pipelines_hear_turns(heard: dict[str, Told], way: str) -> None:
    told = heard[way]
    kinds = [kind for kind, _ in told]
    assert jiwer.wer(" ".join(map(recordings.words, SAID)), " ".join(texts(told))) <= 0.2
    assert kinds.index("InterimTranscriptionFrame") < kinds.index("TranscriptionFrame")
    assert "ErrorFrame" not in kinds
    if way.endswith("server_vad"):
        begun = kinds.count("ProposedUserStartedSpeakingFrame")
        assert begun == kinds.count("ProposedUserStoppedSpeakingFrame") >= len(SAID)


@pytest.mark.parametrize(
    ("framework", "way"), [("livekit", "openai"), ("livekit", "deepgram"), ("pipecat", "openai")]
)
async def test_an_agent_whose_connection_is_cut_hears_the_next_turn(
    url: str, spoken: list[Path], framework: str, way: str
) -> None:
    async with proxied(url) as (proxy, through):
        told = await _hears(framework, way, through, spoken, on_final=proxy.cut)
    assert proxy.connections_made > 1
    assert texts(told)[0] == recordings.words("hello")
    assert texts(told)[-1].endswith("friday")


async def test_the_voice_agent_of_the_examples_answers_its_caller(
    url: str, spoken: list[Path], tmp_path: Path
) -> None:
    answer = tmp_path / "agent.wav"
    agent = await asyncio.create_subprocess_exec(
        *(str(PYTHON), str(ROOT / "examples/voice_agent.py"), str(spoken[0])),
        *("--url", url, "--out", str(answer)),
        stdout=PIPE,
        stderr=DEVNULL,
    )
    async with asyncio.timeout(SECONDS):
        told, _ = await agent.communicate()
    assert agent.returncode == 0
    heard = recordings.words(SAID[0])
    assert told.decode().splitlines() == [f"caller: {heard}", f"agent: You said: {heard}."]
    samples, rate = soundfile.read(answer)
    assert len(samples) > rate and abs(samples).max() > 0.1


async def test_the_voice_agent_of_the_examples_reports_a_server_that_is_not_there(
    spoken: list[Path],
) -> None:
    agent = await asyncio.create_subprocess_exec(
        *(str(PYTHON), str(ROOT / "examples/voice_agent.py"), str(spoken[0])),
        *("--url", "http://127.0.0.1:9"),
        stderr=PIPE,
    )
    async with asyncio.timeout(SECONDS):
        _, said = await agent.communicate()
    assert agent.returncode == 1
    assert "Error connecting to OpenAI Realtime STT" in said.decode().splitlines()[-1]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
async def test_javascript_clients_that_check_every_field_understand_each_answer(
    url: str, spoken: list[Path], tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(await _realtime_events(url, "hello")))
    script = ROOT / "tests/agents/strict_clients.mjs"
    command = ["node", str(script), url, str(spoken[0]), str(events)]
    ran = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    recordings_told, events_told = told[:3], told[3:]
    assert [one["client"] for one in recordings_told] == [
        "whisper-1",
        "gpt-4o-transcribe",
        "nova-3",
    ]
    assert {one["text"] for one in recordings_told} == {recordings.words("hello")}
    assert recordings_told[0]["segments"]
    assert recordings_told[0]["language"] == "en"
    assert all(one["valid"] for one in events_told)
    # The client accepts all other events by their own types.
    unknown = {one["type"] for one in events_told if one["isGeneric"]}
    assert unknown <= {
        "auricle.transcription.partial",
        "conversation.item.input_audio_transcription.segment",
    }
    assert {
        "session.created",
        "session.updated",
        "error",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
    } <= {one["type"] for one in events_told}


async def _realtime_events(url: str, name: str) -> list[str]:
    """The events of a session that sends a recording and an unknown event."""
    events: list[str] = []
    address = url.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
    async with asyncio.timeout(SECONDS), websockets.connect(address) as connection:

        async def send(**event: object) -> None:
            await connection.send(json.dumps(event))

        audio = {"format": {"type": "audio/pcm", "rate": 24_000}}
        await send(
            type="session.update", session={"type": "transcription", "audio": {"input": audio}}
        )
        await send(type="unknown", event_id="mine")
        spoken = resampled_pcm(name).tobytes()
        for at in range(0, len(spoken), 48_000):
            piece = base64.b64encode(spoken[at : at + 48_000]).decode()
            await send(type="input_audio_buffer.append", audio=piece)
        await send(type="input_audio_buffer.commit")
        while "transcription.completed" not in (events or [""])[-1]:
            events.append(str(await connection.recv()))
    return events
