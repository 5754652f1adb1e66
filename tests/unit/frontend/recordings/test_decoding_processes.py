"""The processes that decode recordings: their output, and their isolation from one another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile

from auricle.audio.voice_activity import VAD_FRAME, VoiceActivitySequence, VoiceState
from auricle.core.errors import UndecodableAudio
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.decoding_process import (
    DecodingJob,
    EndOfRecording,
    Output,
    RecordingDecoder,
)
from auricle.frontend.recordings.parts import DecodedSamples, RecordingPart
from auricle_testing import recordings
from auricle_testing.containers import encoded, spoiled
from auricle_testing.server import eventually
from tests.decoding import VAD, collect, job, started

pytestmark = pytest.mark.unit


def in_place(one: DecodingJob, path: Path) -> list[Output]:
    with path.open("rb") as file:
        return list(RecordingDecoder()(one, file))


def pcm_samples(outputs: list[Output]) -> int:
    return sum(len(output.pcm) // 2 for output in outputs if isinstance(output, RecordingPart))


def test_speech_comes_out_in_parts_and_silence_does_not() -> None:
    *outputs, end = in_place(job(), recordings.path("kitchen"))
    assert end == EndOfRecording(len(recordings.samples("kitchen")))
    assert sum(isinstance(output, RecordingPart) for output in outputs) >= 2
    assert pcm_samples(outputs) < end.samples


def test_without_endpointing_everything_is_speech() -> None:
    *outputs, end = in_place(job(endpointing=None), recordings.path("kitchen"))
    assert isinstance(end, EndOfRecording)
    assert pcm_samples(outputs) == end.samples


@pytest.mark.parametrize("endpointing", [VAD, None])
def test_speech_before_and_after_a_gap_has_its_times_and_the_gap_costs_nothing(
    tmp_path: Path, endpointing: EndpointingOptions | None
) -> None:
    path = tmp_path / "paused.webm"
    spoken = recordings.samples("hello")
    path.write_bytes(encoded("webm", [(0.0, spoken), (30.0, spoken)]))
    *outputs, end = in_place(job(endpointing=endpointing), path)
    parts = [output for output in outputs if isinstance(output, RecordingPart)]
    assert any(part.start >= 30 * 16_000 - 100 for part in parts)
    assert not any(part.start < 20 * 16_000 < part.end for part in parts)
    decoded = sum(o.samples for o in outputs if isinstance(o, DecodedSamples))
    assert decoded == pytest.approx(2 * len(spoken), abs=1_000)
    assert isinstance(end, EndOfRecording)
    assert end.samples == pytest.approx(30 * 16_000 + len(spoken), abs=1_000)
    assert len(end.warnings) == 1


def test_no_part_runs_across_damage(tmp_path: Path) -> None:
    """The words on its two sides would form wrong ones."""
    path = tmp_path / "damaged.mp3"
    spoken = np.concatenate([recordings.samples("hello")] * 3)
    path.write_bytes(spoiled(encoded("mp3", [(0.0, spoken)]), "hole"))
    damaged = job(endpointing=None, keep_damaged=True)
    first, second = (o for o in in_place(damaged, path) if isinstance(o, RecordingPart))
    assert first.end == second.start == pytest.approx(len(spoken) // 2, abs=16_000)


def test_silence_is_decoded_too(tmp_path: Path) -> None:
    path = tmp_path / "silence.flac"
    soundfile.write(path, np.zeros(16_000 * 60, np.int16), 16_000)
    *decoded, end = in_place(job(), path)
    assert len(decoded) > 1
    assert sum(o.samples for o in decoded if isinstance(o, DecodedSamples)) == 16_000 * 60
    assert end == EndOfRecording(16_000 * 60)


def test_one_channel_may_be_decoded_and_the_others_counted(tmp_path: Path) -> None:
    path = tmp_path / "two.flac"
    said = recordings.samples("hello")
    soundfile.write(path, np.stack([np.zeros_like(said), said], axis=1), 16_000)
    silent, spoken = (in_place(job(channel=number, most_channels=2), path) for number in range(2))
    assert silent[-1] == spoken[-1] == EndOfRecording(len(said), channels=2)
    assert pcm_samples(silent) == 0
    assert spoken[:-1] == in_place(job(), recordings.path("hello"))[:-1]


@pytest.fixture
async def processes() -> AsyncGenerator[DecodingProcesses, None]:
    async for made in started(decoding_processes=1):
        yield made


def children() -> list[psutil.Process]:
    """Decoding processes with or without a recording: children of the permanent fork server."""
    return [
        process
        for server in psutil.Process().children()
        if any("forkserver" in part for part in server.cmdline())
        for process in server.children()
        if process.status() != psutil.STATUS_ZOMBIE
    ]


def at_work() -> list[psutil.Process]:
    """The ones with a recording: they are confined, and can open nothing more."""
    return [child for child in children() if open_files(child) == 0]


def waiting() -> list[psutil.Process]:
    """The ones without a recording."""
    return [child for child in children() if open_files(child)]


def open_files(child: psutil.Process) -> int | None:
    """How many files a process may open; None if it has ended."""
    try:
        return int(child.rlimit(psutil.RLIMIT_NOFILE)[0])
    except psutil.NoSuchProcess:
        return None


async def test_a_process_gives_what_the_work_in_place_gives(processes: DecodingProcesses) -> None:
    path = recordings.path("market")
    assert await collect(processes, job(), path) == in_place(job(), path)


async def test_a_bad_file_fails_alone(processes: DecodingProcesses, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(b"RIFF" + os.urandom(500))
    with pytest.raises(UndecodableAudio):
        await collect(processes, job(), path)
    assert await collect(processes, job(), recordings.path("hello"))


async def test_leaving_early_ends_the_process_and_frees_its_place(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "long.flac"
    soundfile.write(path, np.tile(recordings.samples("market"), 40), 16_000)
    outputs = processes.outputs(job(), path, "somebody")
    await anext(outputs)
    assert len(at_work()) == 1
    await outputs.aclose()
    await eventually(lambda: not at_work(), seconds=60)
    assert await collect(processes, job(), recordings.path("hello"))


async def test_a_process_waits_for_the_next_recording_and_has_but_one(
    processes: DecodingProcesses,
) -> None:
    numbers = []
    for _ in range(2):
        await eventually(lambda: len(waiting()) == 1, seconds=60)
        numbers += [process.pid for process in waiting()]
        outputs = processes.outputs(job(), recordings.path("hello"), "somebody")
        await anext(outputs)
        assert [process.pid for process in at_work()] == numbers[-1:]
        await outputs.aclose()
    assert len(set(numbers)) == 2


async def test_if_the_process_that_waits_is_gone_another_is_started(
    processes: DecodingProcesses,
) -> None:
    await eventually(lambda: len(waiting()) == 1, seconds=60)
    (gone,) = waiting()
    gone.kill()
    await eventually(lambda: not waiting(), seconds=60)
    assert await collect(processes, job(), recordings.path("hello"))


async def test_the_process_that_waits_ends_with_the_pool() -> None:
    async for processes in started(decoding_processes=1):
        assert await collect(processes, job(), recordings.path("hello"))
    await eventually(lambda: not children(), seconds=60)


async def test_cancelling_a_start_leaves_no_process(processes: DecodingProcesses) -> None:
    starting = asyncio.create_task(collect(processes, job(), recordings.path("hello")))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await eventually(lambda: not at_work(), seconds=60)
    assert await collect(processes, job(), recordings.path("hello"))


async def test_a_waiting_recording_starts_when_one_before_is_cancelled(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "long.flac"
    soundfile.write(path, np.tile(recordings.samples("market"), 40), 16_000)
    first = processes.outputs(job(), path, "somebody")
    await anext(first)
    second = asyncio.create_task(collect(processes, job(), recordings.path("hello")))
    await asyncio.sleep(0)
    assert not second.done()
    await first.aclose()
    assert await asyncio.wait_for(second, 120)


async def test_one_client_cannot_take_all_processes(tmp_path: Path) -> None:
    """Of its long recordings, one is decoded and one waits; another client's is decoded at once."""
    path = tmp_path / "long.flac"
    soundfile.write(path, np.tile(recordings.samples("market"), 40), 16_000)
    async for processes in started(decoding_processes=2):
        greedy = processes.outputs(job(), path, "greedy")
        await anext(greedy)
        waiting = asyncio.create_task(collect(processes, job(), path, "greedy"))
        assert await asyncio.wait_for(
            collect(processes, job(), recordings.path("hello"), "other"), 60
        )
        await eventually(lambda: len(at_work()) == 1, seconds=60)
        waiting.cancel()
        await greedy.aclose()


def test_a_part_knows_how_likely_it_is_speech(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    pause = np.zeros(40_000, np.float32)
    spoken = [recordings.samples("hello"), pause, recordings.samples("kitchen")]
    soundfile.write(path, np.concatenate(spoken), 16_000, subtype="PCM_16")
    pcm, _ = soundfile.read(path, dtype="int16")
    voice = VoiceState()
    frames = voice.frames(pcm, last=True)
    probabilities = VoiceActivitySequence().probabilities(voice, frames)
    found = [part for part in in_place(job(), path) if isinstance(part, RecordingPart)]
    assert len(found) > 1
    for part in found:
        own = probabilities[part.start // VAD_FRAME : -(-part.end // VAD_FRAME)]
        assert part.speech == pytest.approx(own.max(), abs=0.01)
        assert 0.5 < part.speech < 1.0
    everything = in_place(job(endpointing=None), path)
    assert {part.speech for part in everything if isinstance(part, RecordingPart)} == {1.0}
