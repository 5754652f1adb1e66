"""Files and streams become 16 kHz mono, or a clear error."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from auricle.audio.decode import read_audio
from auricle.audio.pcm import PcmStream, to_float, to_int16
from auricle.audio.segmentation import quietest_point
from auricle.core.errors import BadRequest

pytestmark = pytest.mark.unit


def tone(rate: int, seconds: float = 1.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "ogg"])
@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (44_100, 2), (8_000, 1)])
def test_files_of_any_kind_rate_and_channel_count_decode(
    tmp_path: Path, suffix: str, rate: int, channels: int
) -> None:
    path = tmp_path / f"tone.{suffix}"
    soundfile.write(path, np.stack([tone(rate)] * channels, axis=1), rate)
    samples = read_audio(path)
    assert samples.dtype == np.float32
    assert abs(len(samples) - 16_000) < 1_700  # MP3 adds its encoder's padding
    spectrum = np.abs(np.fft.rfft(samples[2_000:14_000]))
    assert abs(np.argmax(spectrum) * 16_000 / 12_000 - 440) < 5


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"this is not audio at all", "not readable"), (b"", "not readable")],
)
def test_a_file_that_is_not_audio_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.wav"
    path.write_bytes(content)
    with pytest.raises(BadRequest, match=said):
        read_audio(path)


def test_files_without_audio_or_with_absurd_rates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no such audio file"):
        read_audio(tmp_path / "missing.wav")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16_000)
    with pytest.raises(BadRequest, match="contains no audio"):
        read_audio(tmp_path / "empty.wav")
    soundfile.write(tmp_path / "slow.wav", np.zeros(100), 100)
    with pytest.raises(BadRequest, match="outside 4000 to 192000"):
        read_audio(tmp_path / "slow.wav")
    nan = np.full(100, np.nan, np.float32)
    soundfile.write(tmp_path / "nan.wav", nan, 16_000, subtype="FLOAT")
    with pytest.raises(BadRequest, match="not finite"):
        read_audio(tmp_path / "nan.wav")


def test_a_sample_split_between_packets_is_put_together() -> None:
    data = np.arange(-50, 50, dtype="<i2").tobytes()
    stream = PcmStream(16_000)
    parts = [stream.push(data[i : i + 7]) for i in range(0, len(data), 7)]
    assert np.concatenate([*parts, stream.end()]).tobytes() == data


def test_half_a_sample_at_the_end_is_dropped() -> None:
    stream = PcmStream(16_000)
    assert stream.push(b"abc").tobytes() == b"ab"
    assert not len(stream.end())


def test_other_rates_are_resampled_without_losing_the_end() -> None:
    stream = PcmStream(8_000)
    data = to_int16(tone(8_000).astype(np.float32)).tobytes()
    parts = [stream.push(data[i : i + 1_000]) for i in range(0, len(data), 1_000)]
    samples = to_float(np.concatenate([*parts, stream.end()]))
    assert abs(len(samples) - 16_000) <= 2


@pytest.mark.parametrize("rate", [8_000, 12_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("encoding", ["pcm_s16le", "pcm_mulaw"])
def test_however_a_stream_is_cut_its_samples_are_the_same(rate: int, encoding: str) -> None:
    """Loud noise, so that the test includes clipping of overshoots."""
    noise = np.random.default_rng(rate).integers(-32_768, 32_768, rate, np.int16)
    data = noise.astype("<i2").tobytes()

    def converted(size: int) -> npt.NDArray[np.int16]:
        stream = PcmStream(rate, encoding)
        parts = [stream.push(data[i : i + size]) for i in range(0, len(data), size)]
        return np.concatenate([*parts, stream.end()])

    whole = converted(len(data))
    for size in (101, 320, 3_200):
        np.testing.assert_array_equal(converted(size), whole)


def test_the_quietest_point_lies_in_the_gap() -> None:
    noise = np.random.default_rng(0).standard_normal(48_000).astype(np.float32) * 0.1
    noise[20_000:26_000] *= 0.01
    assert 20_000 <= quietest_point(noise) <= 26_000
