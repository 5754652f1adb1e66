"""Endpointing that resumes on another frontend finds the same speech, pauses and samples."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.features import pack
from auricle.audio.pcm import PcmStream
from auricle.audio.voice_activity import VAD_FRAME, VoiceActivityModel, VoiceState
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.audio.ingest import FeatureIngest, Ingest
from auricle.frontend.audio.resume_state import BEGIN, AudioCheckpoint, client_sample, left_out
from auricle_testing import recordings
from tests.fakes.listening import LOUD, ByContent, carried, flat, listened, numbered

pytestmark = pytest.mark.unit
OPTIONS = EndpointingOptions(threshold=0.5, min_silence_ms=320, pre_roll_ms=160)


@settings(max_examples=100)
@given(LOUD, st.floats(0, 1), st.integers(0, VAD_FRAME - 1))
def test_a_gate_resumed_at_any_sample_gives_the_same_segments(
    loud: list[float], cut: float, rest: int
) -> None:
    samples = numbered(len(loud) * VAD_FRAME + rest)
    last = [0.9] if rest else []
    alone = Endpointer(OPTIONS)
    undisturbed = alone.push(samples, loud) + alone.finish(last)
    at = int(cut * len(samples))
    first = Endpointer(OPTIONS)
    before = first.push(samples[:at], loud[: at // VAD_FRAME])
    second = Endpointer(OPTIONS, first.kept_from, first.state)
    after = second.push(samples[first.kept_from :], loud[at // VAD_FRAME :]) + second.finish(last)
    assert flat(before + after) == flat(undisturbed)


@pytest.mark.parametrize("options", [OPTIONS, None])
@settings(max_examples=60)
@given(loud=LOUD, cut=st.floats(0, 1), packet=st.integers(1, 5_000))
def test_listening_resumed_after_any_packet_goes_on_alike(
    options: EndpointingOptions | None, loud: list[float], cut: float, packet: int
) -> None:
    pcm = np.repeat((np.array(loud) * 32767).astype("<i2"), VAD_FRAME)
    data, half = pcm.tobytes(), int(cut * len(pcm)) * 2

    async def run() -> None:
        alone = Ingest(16_000, "pcm_s16le", ByContent(), options)  # type: ignore[arg-type]
        undisturbed = await listened(alone, data, packet) + await alone.end()
        first = Ingest(16_000, "pcm_s16le", ByContent(), options)  # type: ignore[arg-type]
        before = await listened(first, data[:half], packet)
        point = carried(first.checkpoint)
        second = Ingest(16_000, "pcm_s16le", ByContent(), options, point)  # type: ignore[arg-type]
        after = await listened(second, data[2 * point.sample :], packet) + await second.end()
        assert flat(before + after) == flat(undisturbed)
        assert second.total_samples == len(pcm)

    asyncio.run(run())


def test_the_model_goes_on_as_if_it_had_heard_the_beginning() -> None:
    pcm = (recordings.samples("hello") * 32767).astype(np.int16)
    model, half = VoiceActivityModel(), 40 * VAD_FRAME
    state = VoiceState()
    model.probabilities([(state, state.frames(pcm[:half]))])
    point = carried(AudioCheckpoint(voice=_memory(state)))
    assert point.voice is not None
    restored = point.voice.state()
    (expected,) = model.probabilities([(state, state.frames(pcm[half:]))])
    (found,) = model.probabilities([(restored, restored.frames(pcm[half:]))])
    assert expected.max() > 0.9
    np.testing.assert_array_equal(found, expected)


def _memory(state: VoiceState) -> Any:
    from auricle.frontend.audio.resume_state import SavedVoiceState

    return SavedVoiceState.of(state)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 44_100, 48_000, 96_000, 15_999])
@pytest.mark.parametrize("sample", [0, 1_000, 16_000, 40_001])
def test_a_resampler_begun_at_the_clients_sample_gives_the_same_samples(
    rate: int, sample: int
) -> None:
    seconds = np.arange(4 * rate) / rate
    tone = 8_000 * np.sin(2 * np.pi * 440 * seconds) + 5_000 * np.sin(2 * np.pi * 1_311 * seconds)
    pcm = tone.astype("<i2")
    whole = PcmStream(rate)
    expected = np.concatenate([whole.push(pcm.tobytes()), whole.end()])[sample:]
    begin = client_sample(sample, rate)
    assert 0 <= begin <= sample * rate // 16_000
    resumed = PcmStream(rate, skip=left_out(sample, rate))
    found = np.concatenate([resumed.push(pcm[begin:].tobytes()), resumed.end()])
    assert len(found) == len(expected)
    # The resampler's blocks begin at another sample, so its sums are rounded differently.
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert (found != expected).mean() < 0.005


async def test_features_go_on_between_two_segments_only() -> None:
    ingest = FeatureIngest("float32", 30.0)
    assert ingest.checkpoint == BEGIN
    first = pack(1_600, 0, 1_600, np.zeros((10, 128), np.float32), last=False, dtype="float32")
    last = pack(1_600, 9, 3_200, np.zeros((11, 128), np.float32), last=True, dtype="float32")
    ingest.take(first)
    await ingest.process()
    assert ingest.checkpoint is None
    ingest.take(last)
    await ingest.process()
    assert ingest.checkpoint == AudioCheckpoint(4_800, 4_800, 3_200)
    again = FeatureIngest("float32", 30.0, ingest.checkpoint)
    assert again.received_samples == 3_200
    again.take(first)
    with pytest.raises(ProtocolError, match="before the end of the one before at 4800"):
        await again.process()
