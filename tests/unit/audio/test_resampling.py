"""Live audio at other rates than 16 kHz: nothing is lost or shifted, and little is held back."""

import numpy as np
import pytest
import soxr

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Float32, PolyphaseResampler, stream_resampler

pytestmark = pytest.mark.unit

SHORT_PERIODS = [8_000, 12_000, 24_000, 32_000, 48_000, 96_000]
PACKET_S = 0.02


def noise(rate: int, seconds: float, highest: float) -> Float32:
    """16-bit samples of noise below `highest` Hz."""
    count = int(rate * seconds)
    spectrum = np.fft.rfft(np.random.default_rng(rate).standard_normal(count))
    spectrum[np.fft.rfftfreq(count, 1 / rate) > highest] = 0
    samples = np.fft.irfft(spectrum, count)
    return np.rint(samples / np.abs(samples).max() * 30_000).astype(np.float32)


def resampled(rate: int, samples: Float32, packet: int) -> list[Float32]:
    stream = stream_resampler(rate)
    parts = [stream.resample_chunk(samples[i : i + packet]) for i in range(0, len(samples), packet)]
    return [*parts, stream.resample_chunk(np.zeros(0, np.float32), last=True)]


@pytest.mark.parametrize("rate", SHORT_PERIODS)
def test_what_lies_in_the_pass_band_is_as_soxr_has_it(rate: int) -> None:
    samples = noise(rate, 2.0, 0.9 * min(rate, SAMPLE_RATE) / 2)
    found = np.concatenate(resampled(rate, samples, int(PACKET_S * rate)))
    right = soxr.resample(samples, rate, SAMPLE_RATE)
    assert len(found) == len(right)
    middle = slice(400, -400)  # the filters' edges differ at both ends
    error = found[middle] - right[middle]
    assert np.sqrt((error**2).mean() / (right[middle] ** 2).mean()) < 1e-4


@pytest.mark.parametrize("rate", [24_000, 48_000, 96_000])
def test_what_16_khz_cannot_hold_is_gone(rate: int) -> None:
    times = np.arange(rate) / rate
    tone = (30_000 * np.sin(2 * np.pi * 9_000 * times)).astype(np.float32)
    found = np.concatenate(resampled(rate, tone, 480))
    assert np.abs(found[400:-400]).max() < 30_000 * 2e-4


@pytest.mark.parametrize("rate", SHORT_PERIODS)
def test_of_each_packet_no_more_than_half_the_filter_is_held_back(rate: int) -> None:
    samples = noise(rate, 1.0, 1_000)
    parts = resampled(rate, samples, int(PACKET_S * rate))[:-1]
    given = np.cumsum([len(part) for part in parts]) / SAMPLE_RATE
    received = np.arange(1, len(parts) + 1) * PACKET_S
    # Half of the 80 dB filter's length, and the outputs of one matrix product.
    assert (received - given).max() <= (0.0083 if rate == 8_000 else 0.0065)


@pytest.mark.parametrize("seconds", [0.0, 0.0001, 0.003, 0.021])
@pytest.mark.parametrize("rate", SHORT_PERIODS)
def test_however_short_it_is_it_has_its_length(rate: int, seconds: float) -> None:
    samples = noise(rate, 1.0, 1_000)[: int(rate * seconds)]
    found = np.concatenate(resampled(rate, samples, 7))
    assert len(found) == -(-len(samples) * SAMPLE_RATE // rate)


def test_rates_of_long_periods_are_left_to_soxr() -> None:
    assert isinstance(stream_resampler(48_000), PolyphaseResampler)
    assert isinstance(stream_resampler(44_100), soxr.ResampleStream)
