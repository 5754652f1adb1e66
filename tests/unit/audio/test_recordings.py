"""Recorded files: formats, limits, parts, and the processes that decode them."""

from __future__ import annotations

import os
import tempfile
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from auricle.audio.recording import PickedChannel, RecordingLimits, read_recording
from auricle.audio.segmentation import SegmentLimits
from auricle.core.errors import AudioTooLong, TooCostly, UndecodableAudio
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.recordings.parts import PartCutter, RecordingPart

pytestmark = pytest.mark.unit
LIMITS = SegmentLimits.from_seconds(pause_after=8, maximum=20, search=3)


def tone(seconds: float, rate: int, channels: int = 1) -> np.ndarray:
    wave = 0.3 * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)
    return np.repeat(wave[:, None], channels, axis=1).astype(np.float32)


def container(path: Path, codec: str, seconds: float, rate: int = 48_000) -> Path:
    """A file that only FFmpeg reads."""
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


def read(path: Path, max_seconds: float = 100.0, picked: PickedChannel | None = None) -> np.ndarray:
    with path.open("rb") as file:
        limits = RecordingLimits(seconds=max_seconds)
        return np.concatenate(list(read_recording(file, path.name, limits, picked)))


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


def test_a_channel_is_heard_by_itself(tmp_path: Path) -> None:
    """Each channel gives the text of a separate recording, for interleaved and planar samples."""
    noise = np.random.default_rng(0).integers(-3000, 3000, (16_000 * 12, 2)).astype(np.int16)
    for suffix in ("wav", "flac"):
        path = tmp_path / f"two.{suffix}"
        soundfile.write(path, noise, 16_000)
        for number in range(2):
            picked = PickedChannel(number, most=2)
            assert np.array_equal(read(path, picked=picked), noise[:, number])
            assert picked.count == 2


def test_channels_that_cannot_be_heard_apart_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "three.wav"
    soundfile.write(path, tone(1.0, 16_000, 3), 16_000)
    with pytest.raises(TooCostly, match=r"three\.wav has 3 channels; at most 2 are transcribed"):
        read(path, picked=PickedChannel(0, most=2))
    picked = PickedChannel(0, most=2)
    picked.found(2, "x.wav")
    with pytest.raises(UndecodableAudio, match=r"x\.wav has 2 channels and then 1; they cannot be"):
        picked.found(1, "x.wav")


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


_MPD = (
    '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT3S">'
    '<Period><AdaptationSet mimeType="audio/{kind}"><Representation id="1" bandwidth="1">'
    "<BaseURL>{other}</BaseURL></Representation></AdaptationSet></Period></MPD>"
)
_HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{other}\n#EXT-X-ENDLIST\n"
_NAMING_ANOTHER_FILE = {
    "concat": "ffconcat version 1.0\nfile {other}\n",
    "concat with a protocol": "ffconcat version 1.0\nfile file:{other}\n",
    "HLS": _HLS,
    "HLS with a key": _HLS.replace("#EXTINF", '#EXT-X-KEY:METHOD=AES-128,URI="{other}"\n#EXTINF'),
    "DASH": _MPD,
    "SDP": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 9 RTP/AVP 0\n",
    "smooth streaming": '<SmoothStreamingMedia><StreamIndex Type="audio" Url="{other}"/>'
    "</SmoothStreamingMedia>",
    "IMF": '<CompositionPlaylist xmlns="http://www.smpte-ra.org/schemas/2067-3/2016">'
    "<Id>{other}</Id></CompositionPlaylist>",
    "M3U": "#EXTM3U\n{other}\n",
    "RealText": '<window><audio src="{other}"/></window>',
    "filter graph": "amovie={other}",
    "VobSub": "# VobSub index file, v7\nid: en, index: 0\n# {other}\n",
}


@pytest.mark.parametrize("suffix", ["wav", "m4a", "ts"])
@pytest.mark.parametrize("form", _NAMING_ANOTHER_FILE)
def test_a_recording_cannot_name_another_file(tmp_path: Path, form: str, suffix: str) -> None:
    other = tmp_path / f"other.{suffix}"
    container(other, "aac" if suffix != "wav" else "pcm_s16le", 3.0)
    for spelling in (other.name, str(other), other.as_uri()):
        path = tmp_path / "upload"
        path.write_text(_NAMING_ANOTHER_FILE[form].format(other=spelling, kind="mp4"))
        with pytest.raises(UndecodableAudio, match="not readable as WAV, FLAC"):
            read(path)


def test_an_upload_cannot_read_another_clients_upload() -> None:
    """Both are anonymous files of one process."""
    with tempfile.TemporaryFile() as theirs, tempfile.TemporaryFile() as upload:
        soundfile.write(theirs, tone(3.0, 16_000), 16_000, format="WAV")
        theirs.flush()
        upload.write(f"ffconcat version 1.0\nfile {theirs.fileno()}\n".encode())
        upload.flush()
        with pytest.raises(UndecodableAudio, match="not readable as WAV, FLAC"):
            read(Path(f"/proc/{os.getpid()}/fd/{upload.fileno()}"))


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


def test_a_recording_of_exactly_the_longest_length_is_taken(tmp_path: Path) -> None:
    """The sum of its frames' 0.256 s is a little more than 60 s in floating point."""
    path = tmp_path / "silence.flac"
    soundfile.write(path, np.zeros(60 * 16_000, np.int16), 16_000)
    assert len(read(path, max_seconds=60.0)) == 60 * 16_000


# ── parts ───────────────────────────────────────────────────────────────────


def pieces(*lengths: tuple[float, str]) -> list[AudioChunk]:
    at, made = 0, []
    for seconds, boundary in lengths:
        samples = int(seconds * 16_000)
        made.append(AudioChunk(at, np.ones(samples, np.int16), boundary))  # type: ignore[arg-type]
        at += samples
    return made


def seconds_of(parts: list[RecordingPart]) -> list[tuple[float, float]]:
    return [(part.start / 16_000, len(part.pcm) / 32_000) for part in parts]


def cut(events: list[AudioChunk]) -> list[RecordingPart]:
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
    first, second = cut([AudioChunk(0, loud, "endpoint")])
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
