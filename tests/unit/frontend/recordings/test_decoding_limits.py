"""Each limit on decoding, with a recording that reaches it, and the order of waiting recordings."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from auricle.audio.recording import RecordingLimits, read_recording
from auricle.core.errors import AudioTooLong, AuricleError, BadRequest, TooCostly, UndecodableAudio
from auricle.frontend.recordings.decoding_pool import DecodingProcesses
from auricle.frontend.recordings.parts import DecodedSamples
from auricle.frontend.recordings.sandbox import ProcessLimits
from auricle_testing import media, recordings
from tests.decoding import GENEROUS, collect, job, started

pytestmark = pytest.mark.unit
HOUR = 3600


def seconds_of(data: bytes, limits: RecordingLimits = GENEROUS, name: str = "x") -> float:
    """The number of decoded seconds of a recording, in this process."""
    blocks = read_recording(io.BytesIO(data), name, limits)
    return sum(len(block) for block in blocks) / 16_000


def refused(error: type[AuricleError], words: str, data: bytes, **limits: float) -> None:
    values = {"seconds": 7200.0, **limits}
    with pytest.raises(error, match=words):
        seconds_of(data, RecordingLimits(**values))  # type: ignore[arg-type]


def test_packets() -> None:
    """Decoding a million packets of one sample (11 MB) stops after the first thousands."""
    bomb = media.one_sample_packets(1_000_000)
    refused(TooCostly, r"more than 500 packets per second .*max_recording_packets_per", bomb)


def test_as_many_packets_as_any_encoder_makes_are_taken() -> None:
    packets = [bytes(2 * 40)] * 4_000  # 2.5 ms each
    assert seconds_of(media.matroska([media.pcm_track()], packets)) == 10.0


def test_decoded_seconds_whatever_the_header_states() -> None:
    lying = media.silent_flac(HOUR, 16_000, 1, stated=16_000)
    refused(AudioTooLong, "longer than the 600 s .*max_recording_seconds", lying, seconds=600.0)


def test_stated_seconds() -> None:
    refused(AudioTooLong, "longer than the 7200 s", media.silent_flac(3 * HOUR, 16_000, 1))


def test_a_stated_length_beyond_the_end_costs_nothing() -> None:
    assert seconds_of(media.wav(bytes(32_000), stated=0xFFFFFFFF)) == 1.0
    assert seconds_of(media.mp4(samples=0x7FFFFFFF)) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("rate", [192_000, 96_000])
def test_samples_of_all_channels(rate: int) -> None:
    wide = media.wav(bytes(32 * 2 * rate // 10), rate=rate, channels=32)
    refused(TooCostly, rf"32 channels at {rate} Hz.*max_recording_channel_rate", wide)
    assert seconds_of(media.wav(bytes(32 * 2 * 4_800), rate=48_000, channels=32)) == 0.1


def test_channels() -> None:
    wide = media.wav(bytes(33 * 2 * 800), rate=8_000, channels=33)
    refused(UndecodableAudio, "33 channels; 1 to 32 can be used", wide)


@pytest.mark.parametrize("count", [65, 3_000])
def test_tracks(count: int) -> None:
    tracks = [media.pcm_track(number=number) for number in range(1, count + 1)]
    refused(TooCostly, r"tracks; .* may have 64 .max_recording_tracks", media.matroska(tracks, []))


def test_changes_of_the_sample_rate() -> None:
    assert seconds_of(media.flac_of_many_rates(50)) > 0
    refused(TooCostly, "sample rate more than 100 times", media.flac_of_many_rates(500))


def test_attachments_are_not_looked_at() -> None:
    bomb = media.attachments(bytes(32_000), bytes(1 << 20), 10)
    assert seconds_of(bomb) == 1.0


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        (b"A_DTS", "has audio of an unsupported codec"),
        (b"A_TRUEHD", "has audio of an unsupported codec"),
        (b"V_MPEG4/ISO/AVC", "no audio track"),
        (b"S_TEXT/UTF8", "no audio track"),
    ],
)
def test_a_codec_that_is_not_in_the_list_is_not_opened(codec: bytes, words: str) -> None:
    """FFmpeg has decoders for all of them."""
    track = media.pcm_track(codec=codec)
    refused(UndecodableAudio, words, media.matroska([track], [bytes(320)] * 10))


def test_damage_within_is_told_and_damage_at_the_end_is_borne() -> None:
    good = recordings.path("hello").read_bytes()
    cut = seconds_of(good[:-1_000])
    assert 0 < cut < seconds_of(good)
    middle = len(good) // 2
    with pytest.raises(UndecodableAudio, match=r"x is damaged \d+\.\d s after its start"):
        seconds_of(good[:middle] + bytes(4_000) + good[middle + 4_000 :])


@pytest.mark.parametrize(("name", "data"), list(media.bombs(seed=1)), ids=lambda v: str(v)[:20])
def test_every_bomb_is_decoded_or_refused_in_our_words(name: str, data: bytes) -> None:
    try:
        seconds_of(data, RecordingLimits(seconds=300.0), name)
    except BadRequest as error:
        assert type(error) in (UndecodableAudio, AudioTooLong, TooCostly)
        assert str(error).startswith(name)


# ── limits on the process ───────────────────────────────────────────────────


@pytest.fixture
async def processes() -> AsyncGenerator[DecodingProcesses, None]:
    async for made in started(decoding_processes=2):
        yield made


def silence(folder: Path, hours: int) -> Path:
    path = folder / "silence.flac"
    path.write_bytes(media.silent_flac(hours * HOUR, 16_000, 1))
    return path


async def test_cpu_seconds(processes: DecodingProcesses, tmp_path: Path) -> None:
    one = job("bomb.flac", process=ProcessLimits(cpu_seconds=1, memory_bytes=1 << 30))
    with pytest.raises(TooCostly, match=r"more than the 1 s of CPU .*max_decoding_cpu_seconds"):
        await collect(processes, one, silence(tmp_path, 1))
    assert await collect(processes, job(), recordings.path("hello"))


async def test_wall_clock_seconds(tmp_path: Path) -> None:
    async for processes in started(decoding_processes=1, max_decoding_seconds=0.05):
        with pytest.raises(TooCostly, match=r"more than the 0\.05 s .*max_decoding_seconds"):
            await collect(processes, job(), silence(tmp_path, 1))


async def test_memory_of_a_recording(processes: DecodingProcesses, tmp_path: Path) -> None:
    path = tmp_path / "large-frames.mkv"
    path.write_bytes(media.large_frames(bytes(3_200)))
    # Each buffer is larger than any memory that the allocator had left when the limit was set.
    one = job("large-frames.mkv", process=ProcessLimits(cpu_seconds=60, memory_bytes=32 << 20))
    with pytest.raises(TooCostly, match=r"more than 32 MiB to decode .max_decoding_memory_gib"):
        await collect(processes, one, path)


async def test_what_was_decoded_before_a_limit_was_reached_is_told(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    one = job(recording=RecordingLimits(seconds=60.0))
    path = tmp_path / "lying.flac"
    path.write_bytes(media.silent_flac(HOUR, 16_000, 1, stated=16_000))
    decoded = 0
    with pytest.raises(AudioTooLong):
        async for output in processes.outputs(one, path, "somebody"):
            assert isinstance(output, DecodedSamples)
            decoded += output.samples
    assert 45 * 16_000 < decoded <= 60 * 16_000


async def test_a_recording_is_decoded_beside_bombs(
    processes: DecodingProcesses, tmp_path: Path
) -> None:
    """Two bombs of one client: one is being decoded, one waits."""
    alone = await collect(processes, job(), recordings.path("market"))
    path, bomb = silence(tmp_path, 10), job(recording=RecordingLimits(seconds=11.0 * HOUR))
    bombs = [asyncio.create_task(collect(processes, bomb, path, "attacker")) for _ in range(2)]
    await asyncio.sleep(0)
    assert await collect(processes, job(), recordings.path("market"), "other") == alone
    assert not any(bombing.done() for bombing in bombs)
    for bombing in bombs:
        bombing.cancel()
    await asyncio.gather(*bombs, return_exceptions=True)
