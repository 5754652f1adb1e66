"""Recorded files: formats, limits, parts, and the processes that decode them."""

from __future__ import annotations

import asyncio
import os
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import psutil
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from auricle.audio.recording import read_recording
from auricle.audio.segmentation import SegmentLimits
from auricle.errors import AudioTooLong, UndecodableAudio
from auricle.frontend.endpointing import EndpointingOptions, Piece
from auricle.frontend.recordings.decoders import DecodingProcesses
from auricle.frontend.recordings.decoding import Decoded, DecodingJob, outputs
from auricle.frontend.recordings.parts import Part, PartCutter, joined
from tests import recordings
from tests.server import eventually

pytestmark = pytest.mark.unit
LIMITS = SegmentLimits.from_seconds(pause_after=8, maximum=20, search=3)
VAD = EndpointingOptions(0.5, 500, 300)


def tone(seconds: float, rate: int, channels: int = 1) -> np.ndarray:
    wave = 0.3 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    return np.repeat(wave[:, None], channels, axis=1).astype(np.float32)


def container(path: Path, codec: str, seconds: float, rate: int = 48_000) -> Path:
    """A file only FFmpeg reads."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=rate, layout="stereo")
        samples = np.ascontiguousarray(tone(seconds, rate, 2).T)
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="stereo")
        frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), 0
        resampler = av.AudioResampler(
            format=stream.format, layout="stereo", rate=rate, frame_size=stream.frame_size or 1024
        )
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    return path


def read(path: Path, max_seconds: float = 100.0) -> np.ndarray:
    return np.concatenate(list(read_recording(path, path.name, max_seconds)))


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "ogg"])
@pytest.mark.parametrize("rate", [8_000, 44_100])
def test_common_formats_become_16_khz_mono(tmp_path: Path, suffix: str, rate: int) -> None:
    path = tmp_path / f"tone.{suffix}"
    soundfile.write(path, tone(3.0, rate, 2), rate)
    assert len(read(path)) == pytest.approx(48_000, abs=2_500)  # MP3 pads


@pytest.mark.parametrize(("suffix", "codec"), [("m4a", "aac"), ("webm", "libopus")])
def test_containers_are_read_too(tmp_path: Path, suffix: str, codec: str) -> None:
    samples = read(container(tmp_path / f"tone.{suffix}", codec, 3.0))
    assert len(samples) == pytest.approx(48_000, abs=2_500)
    assert np.abs(samples).max() > 5_000


def test_reading_in_blocks_changes_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "noise.wav"
    noise = np.random.default_rng(0).integers(-3000, 3000, 16_000 * 25).astype(np.int16)
    soundfile.write(path, noise, 16_000)
    assert np.array_equal(read(path), noise)


def test_what_is_not_audio_says_what_would_be(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not audio")
    with pytest.raises(UndecodableAudio, match=r"notes\.txt is not readable as WAV, FLAC, MP3"):
        read(path)


def test_a_film_without_sound_says_so(tmp_path: Path) -> None:
    path = tmp_path / "silent.mp4"
    with av.open(str(path), "w") as output:
        stream = output.add_stream("mpeg4", rate=24)
        stream.width = stream.height = 16
        output.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        output.mux(stream.encode(None))
    with pytest.raises(UndecodableAudio, match=r"silent\.mp4 has no audio track"):
        read(path)


def test_an_empty_recording_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.wav"
    soundfile.write(path, np.zeros(0, np.int16), 16_000)
    with pytest.raises(UndecodableAudio, match=r"empty\.wav contains no audio"):
        read(path)


def test_a_rate_nobody_speaks_at_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "slow.wav"
    soundfile.write(path, np.zeros(2_000, np.int16), 1_000)
    with pytest.raises(UndecodableAudio, match="1000 Hz; 4000 to 192000 Hz can be used"):
        read(path)


@pytest.mark.parametrize("suffix", ["wav", "webm"])
def test_the_longest_recording_is_taken_and_a_longer_one_is_not(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"tone.{suffix}"
    if suffix == "wav":
        soundfile.write(path, tone(3.0, 48_000), 48_000)
    else:
        container(path, "libopus", 3.0)
    read(path, max_seconds=3.2)
    with pytest.raises(AudioTooLong, match=r"longer than the 2\.5 s a recording may have"):
        read(path, max_seconds=2.5)


# ── parts ───────────────────────────────────────────────────────────────────


def pieces(*lengths: tuple[float, str]) -> list[Piece]:
    at, made = 0, []
    for seconds, boundary in lengths:
        samples = int(seconds * 16_000)
        made.append(Piece(at, np.ones(samples, np.int16), boundary))  # type: ignore[arg-type]
        at += samples
    return made


def seconds_of(parts: list[Part]) -> list[tuple[float, float]]:
    return [(part.start / 16_000, len(part.pcm) / 32_000) for part in parts]


def cut(events: list[Piece]) -> list[Part]:
    cutter = PartCutter(LIMITS)
    return [*cutter.push(events), *cutter.finish()]


def test_a_part_ends_where_speech_ends() -> None:
    assert seconds_of(cut(pieces((2, "none"), (1, "endpoint"), (4, "endpoint")))) == [
        (0, 3),
        (3, 4),
    ]


def test_only_a_long_part_ends_at_a_pause() -> None:
    assert seconds_of(cut(pieces((7, "pause"), (3, "pause"), (1, "none")))) == [(0, 10), (10, 1)]


def test_speech_without_a_pause_is_cut_at_its_quietest_point() -> None:
    (piece,) = pieces((25, "endpoint"))
    rng = np.random.default_rng(0)
    loud = rng.integers(-8000, 8000, len(piece.pcm)).astype(np.int16)
    loud[18 * 16_000 : 18 * 16_000 + 3_200] //= 100
    first, second = cut([Piece(0, loud, "endpoint")])
    assert len(first.pcm) / 32_000 == pytest.approx(18.1, abs=0.02)
    assert second.start == len(first.pcm) // 2


@given(st.lists(st.tuples(st.floats(0.1, 30), st.sampled_from(["none", "pause", "endpoint"]))))
def test_no_sample_of_speech_is_lost_or_moved(lengths: list[tuple[float, str]]) -> None:
    made = pieces(*lengths)
    parts = cut(made)
    assert sum(len(part.pcm) // 2 for part in parts) == sum(len(piece.pcm) for piece in made)
    ends = [0, *(part.start + len(part.pcm) // 2 for part in parts)]
    assert [part.start for part in parts] == ends[:-1]
    assert all(len(part.pcm) // 2 <= LIMITS.maximum for part in parts)


def sentences(*seconds: float) -> list[Part]:
    """One after the other, a second of silence between each two."""
    made, at = [], 0
    for number, length in enumerate(seconds, 1):
        samples = int(length * 16_000)
        made.append(Part(at, at + samples, np.full(samples, number, "<i2").tobytes()))
        at += samples + 16_000
    return made


def test_short_sentences_are_joined_and_the_silence_between_them_left_out() -> None:
    parts = list(joined(sentences(3, 4, 2, 9), 8 * 16_000))
    assert seconds_of(parts) == [(0, 7), (9, 2), (12, 9)]
    assert [part.end / 16_000 for part in parts] == [8, 11, 21]
    assert list(joined(sentences(3, 4), 0)) == sentences(3, 4)


@given(st.lists(st.floats(0.1, 20)), st.floats(0, 20))
def test_joining_keeps_every_sample_and_the_order(lengths: list[float], longest: float) -> None:
    given_parts = sentences(*lengths)
    parts = list(joined(given_parts, int(longest * 16_000)))
    assert b"".join(p.pcm for p in parts) == b"".join(p.pcm for p in given_parts)
    assert {p.start for p in parts} <= {p.start for p in given_parts}
    assert {p.end for p in parts} <= {p.end for p in given_parts}
    whole = {p.pcm for p in given_parts}
    assert all(len(p.pcm) <= longest * 32_000 or p.pcm in whole for p in parts)


# ── decoding processes ──────────────────────────────────────────────────────


def job(path: Path, **changes: object) -> DecodingJob:
    values = {
        "path": str(path),
        "name": path.name,
        "max_seconds": 7200.0,
        "max_cpu_seconds": 60,
        "max_memory_gib": 4,
        "limits": LIMITS,
        "endpointing": VAD,
        **changes,
    }
    return DecodingJob(**values)  # type: ignore[arg-type]


def test_speech_comes_out_in_parts_and_silence_does_not() -> None:
    *parts, end = outputs(job(recordings.path("kitchen")))
    assert end == Decoded(len(recordings.samples("kitchen")))
    assert len(parts) >= 2
    assert sum(len(p.pcm) // 2 for p in parts if isinstance(p, Part)) < end.samples


def test_without_endpointing_everything_is_speech() -> None:
    *parts, end = outputs(job(recordings.path("kitchen"), endpointing=None))
    assert sum(len(p.pcm) // 2 for p in parts if isinstance(p, Part)) == end.samples


@pytest.fixture
async def processes():
    made = DecodingProcesses(1)
    await made.start()
    yield made
    made.close()


def children() -> list[psutil.Process]:
    """Decoding processes: children of the fork server, which stays."""
    return [
        process
        for server in psutil.Process().children()
        if any("forkserver" in part for part in server.cmdline())
        for process in server.children()
        if process.status() != psutil.STATUS_ZOMBIE
    ]


async def collect(made: DecodingProcesses, one: DecodingJob) -> list[Part | Decoded]:
    return [output async for output in made.parts(one)]


async def test_a_process_gives_what_the_work_in_place_gives(processes: DecodingProcesses) -> None:
    one = job(recordings.path("market"))
    assert await collect(processes, one) == list(outputs(one))


async def test_a_bad_file_fails_alone(processes: DecodingProcesses, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(b"RIFF" + os.urandom(500))
    with pytest.raises(UndecodableAudio):
        await collect(processes, job(path))
    assert await collect(processes, job(recordings.path("hello")))


async def test_leaving_early_ends_the_process_and_frees_its_place(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "long.flac"
    soundfile.write(path, np.tile(recordings.samples("market"), 40), 16_000)
    parts = processes.parts(job(path))
    await anext(parts)
    assert len(children()) == 1
    await parts.aclose()
    await eventually(lambda: not children(), seconds=10)
    assert await collect(processes, job(recordings.path("hello")))


async def test_a_waiting_recording_starts_when_one_before_is_cancelled(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "long.flac"
    soundfile.write(path, np.tile(recordings.samples("market"), 40), 16_000)
    first = processes.parts(job(path))
    await anext(first)
    second = asyncio.create_task(collect(processes, job(recordings.path("hello"))))
    await asyncio.sleep(0)
    assert not second.done()
    await first.aclose()
    assert await asyncio.wait_for(second, 30)


async def test_a_file_that_takes_too_much_cpu_to_decode_is_given_up(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.flac"
    # An hour of silence in a few kilobytes.
    soundfile.write(path, np.zeros(16_000 * 3600, np.int16), 16_000)
    with pytest.raises(AudioTooLong, match=r"bomb\.flac took more than the 1 s of CPU"):
        await collect(processes, job(path, max_cpu_seconds=1))
