"""Times follow the container's: gaps, late starts, tracks; intact files are not touched."""

from __future__ import annotations

import io
from fractions import Fraction
from functools import cache

import av
import numpy as np
import pytest
from av.stream import Disposition

from auricle.audio.findings import Findings
from auricle.audio.recording import Gap, RecordingLimits, filled, read_recording
from auricle.audio.timeline import Timeline, TimeStep
from auricle.core.errors import AudioTooLong, AuricleError, TooCostly
from auricle_testing import media, recordings
from auricle_testing.containers import CONTAINERS, encoded

pytestmark = pytest.mark.unit
SECONDS = 3
# Formats without times: a packet follows the one before it. FFmpeg writes PCM in MOV like that.
_LIKE_RAW = ("wav", "w64", "aiff", "au", "caf", "flac", "mp3", "aac", "amr", "avi", "mov")
NO_TIMES = frozenset(name for name in CONTAINERS if name.startswith(_LIKE_RAW))
# In these, recordings may be cut out of a broadcast: they begin with their first audio.
_CAPTURES = ("ogg", "webm-live", "mp4-fragments", "mpeg", "ts")


@cache
def speech() -> np.ndarray:
    return np.concatenate([recordings.samples(name) for name in ("hello", "kitchen", "market")])


def read(
    data: bytes, most: float = 3600.0, findings: Findings | None = None
) -> tuple[np.ndarray, list[tuple[float, float]], tuple[str, ...]]:
    """All samples, the silences as (place, length) in seconds, and the warnings."""
    findings = findings or Findings()
    blocks = list(read_recording(io.BytesIO(data), "x", RecordingLimits(most), findings=findings))
    silences, place = [], 0
    for block in blocks:
        if isinstance(block, Gap):
            silences.append((place / 16_000, block.samples / 16_000))
            place += block.samples
        else:
            place += len(block)
    return np.concatenate(list(filled(blocks))), silences, findings.warnings(place / 16_000)


def begin_of_speech(samples: np.ndarray, after: float) -> float:
    """The time of the first loud sample after that many seconds."""
    start = int(after * 16_000)
    return after + float(np.argmax(np.abs(samples[start:]) > 600)) / 16_000


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_intact_recording_has_its_length_and_no_warning(name: str) -> None:
    samples, silences, warnings = read(encoded(name, [(0.0, speech()[: SECONDS * 16_000])]))
    assert len(samples) / 16_000 == pytest.approx(SECONDS, abs=0.3)
    assert (silences, warnings) == ([], ())


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_gap_is_silence_of_its_length(name: str) -> None:
    piece = speech()[: 3 * 16_000]
    samples, silences, warnings = read(encoded(name, [(0.0, piece), (30.0, piece)]))
    if name in NO_TIMES:
        assert len(samples) / 16_000 == pytest.approx(6.0, abs=0.3)
        assert silences == []
        return
    assert len(samples) / 16_000 == pytest.approx(33.0, abs=0.3)
    ((place, length),) = silences
    assert (place, length) == (pytest.approx(3.0, abs=0.15), pytest.approx(27.0, abs=0.15))
    expected = 30.0 + begin_of_speech(samples, 0.0)
    assert begin_of_speech(samples, 20.0) == pytest.approx(expected, abs=0.1)
    assert [one.partition(" s have no audio")[0] for one in warnings] == [f"{length:.1f}"]


@pytest.mark.parametrize("name", [*sorted(set(CONTAINERS) - NO_TIMES - {"ogg-flac"}), "mov-pcm"])
def test_a_late_start_counts_where_times_begin_at_zero(name: str) -> None:
    samples, _, _ = read(encoded(name, [(5.0, speech()[: 3 * 16_000])]))
    expected = 3.0 if name.startswith(_CAPTURES) else 8.0
    assert len(samples) / 16_000 == pytest.approx(expected, abs=0.3)


def paused(gap_ms: int, packets: int = 50) -> bytes:
    """PCM in Matroska, in packets of 20 ms, with a gap in its middle."""
    half = packets // 2
    times = [*range(0, half * 20, 20), *range(half * 20 + gap_ms, packets * 20 + gap_ms, 20)]
    return pcm(times)


def pcm(times_ms: list[int]) -> bytes:
    """Matroska with packets of 20 ms of noise at these times."""
    noise = np.random.default_rng(0).integers(-3_000, 3_000, 320).astype("<i2").tobytes()
    return media.matroska([media.pcm_track()], [noise] * len(times_ms), times=times_ms)


@pytest.mark.parametrize("gap_ms", [1, 20, 80])
def test_a_difference_below_the_tolerance_is_no_gap(gap_ms: int) -> None:
    samples, silences, warnings = read(paused(gap_ms))
    assert (len(samples), silences, warnings) == (50 * 320, [], ())


def test_a_gap_beyond_the_longest_recording_is_refused_before_it_is_filled() -> None:
    """A year of silence must cost nothing."""
    data = paused(365 * 24 * 3_600_000)
    with pytest.raises(AudioTooLong, match=r"no audio for 31536000\.0 s at 0\.5 s.*longer than"):
        read(data)


def test_small_losses_that_add_up_are_silence_too() -> None:
    """Every fifth packet is lost: each gap is below the tolerance."""
    times = [at for at in range(0, 20_000, 20) if at // 20 % 5]
    samples, silences, warnings = read(pcm(times))
    assert len(samples) / 16_000 == pytest.approx(20.0, abs=0.15)
    assert silences == []
    assert warnings == ("4.0 s have no audio, spread over the recording",) or "3.9" in warnings[0]


def test_jitter_of_a_recorders_clock_adds_nothing() -> None:
    rng = np.random.default_rng(0)
    times = [at + int(rng.integers(-8, 8)) for at in range(100, 60_000, 20)]
    samples, silences, warnings = read(pcm(times))
    assert (len(samples), silences, warnings) == (len(times) * 320, [], ())


def test_times_that_go_back_lose_no_audio() -> None:
    times = [*range(0, 8_000, 20), *range(5_000, 8_000, 20)]
    samples, silences, warnings = read(pcm(times))
    assert (len(samples), silences) == (len(times) * 320, [])
    assert warnings == (
        "times go back at 8.0 s; the following audio is put after the audio before it",
    )


def test_gaps_are_limited_in_number() -> None:
    """Each one creates a resampler."""
    with pytest.raises(TooCostly, match="more than 10000 gaps"):
        read(pcm(list(range(0, 130 * 10_010, 130))))


def two_tracks(default: int | None) -> bytes:
    """Matroska with a quiet first and a loud second audio track."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        streams = [output.add_stream("pcm_s16le", rate=16_000, layout="mono") for _ in range(2)]
        for number, stream in enumerate(streams):
            stream.disposition = Disposition.default if number == default else 0
        for number, stream in enumerate(streams):
            values = np.full((1, 16_000), (100, 9_000)[number], np.int16)
            frame = av.AudioFrame.from_ndarray(values, format="s16", layout="mono")
            frame.sample_rate, frame.time_base, frame.pts = 16_000, Fraction(1, 16_000), 0
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return file.getvalue()


def test_the_containers_default_track_is_transcribed_and_the_choice_is_told() -> None:
    samples, _, warnings = read(two_tracks(default=1))
    assert samples[8_000] == 9_000
    told = "of 2 audio tracks, number {} is transcribed: it is {}"
    assert warnings == (told.format(2, "the file's default"),)


def test_without_a_default_the_first_track_is_transcribed() -> None:
    samples, _, warnings = read(two_tracks(default=None))
    assert samples[8_000] == 100
    assert warnings[0].startswith("of 2 audio tracks, number 1 is transcribed")


# ── the timeline by itself ──────────────────────────────────────────────────


def steps(*frames: tuple[float | None, float], origin: float | None = None) -> list[TimeStep]:
    """The steps before frames at (time, position) of 20 ms."""
    timeline = Timeline(origin)
    return [timeline.before(at, 0.02, position) for at, position in frames]


def test_a_frame_without_a_time_follows_the_one_before_it() -> None:
    assert steps((7.0, 0.0), (None, 0.02), (7.04, 0.04))[-1] == TimeStep()


def test_the_codecs_delay_at_the_start_is_no_gap() -> None:
    assert steps((0.092, 0.0), (0.112, 0.02), origin=0.0) == [TimeStep(), TimeStep()]


def test_a_recording_that_starts_anew_goes_on_after_the_first() -> None:
    """Joined files: a gap in the second one is still found."""
    found = steps((0.0, 0.0), (20.0, 20.0), (0.0, 20.02), (5.0, 20.04))
    assert [one.kind for one in found] == ["none", "none", "none", "gap"]
    assert found[-1].seconds == pytest.approx(4.98)


@pytest.mark.parametrize("at", [1e300, -1e300, 9e18, float("inf")])
def test_absurd_times_are_refused_or_ignored(at: float) -> None:
    found = steps((0.0, 0.0), (at, 0.02))[-1]
    assert found.kind in ("gap", "back", "none")


def test_an_absurd_time_of_a_file_is_an_error_in_our_words() -> None:
    with pytest.raises(AuricleError, match=r"^x has no audio for"):
        read(pcm([0, 20, 2**40]))
