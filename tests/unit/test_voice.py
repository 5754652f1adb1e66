"""Voice activity of many streams at once, with the real model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from auricle.audio.pcm import to_int16
from auricle.audio.voice_activity import VAD_FRAME, VoiceActivityModel, VoiceState
from auricle.errors import AuricleError, Overloaded
from auricle.frontend.voice import VoiceDetector
from tests import recordings

pytestmark = pytest.mark.unit


@pytest.fixture
async def detector() -> AsyncIterator[VoiceDetector]:
    subject = VoiceDetector(max_queued_seconds=60)
    await subject.load()
    running = asyncio.create_task(subject.run())
    yield subject
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def detect(detector: VoiceDetector, samples: np.ndarray, packet: int) -> list[float]:
    state, found = VoiceState(), []
    pcm = to_int16(samples)
    for at in range(0, len(pcm), packet):
        found += await detector.detect(state, state.frames(pcm[at : at + packet]))
    return found + await detector.detect(state, state.frames(pcm[:0], last=True))


async def test_speech_is_told_from_silence(detector: VoiceDetector) -> None:
    speech = recordings.samples("kitchen")
    silence = np.zeros(2 * recordings.SAMPLE_RATE, np.float32)
    found = np.array(await detect(detector, np.concatenate([silence, speech, silence]), 8_000))
    edge = len(silence) // VAD_FRAME
    assert found[: edge - 1].max() < 0.2
    assert np.mean(found[edge:-edge] > 0.5) > 0.7
    assert found[-edge // 2 :].max() < 0.2


async def test_streams_side_by_side_are_heard_as_if_alone(detector: VoiceDetector) -> None:
    names = ("hello", "kitchen", "station")
    together = await asyncio.gather(
        *(
            detect(detector, recordings.samples(name), 3_000 + 1_000 * i)
            for i, name in enumerate(names)
        )
    )
    model = VoiceActivityModel()
    for name, found in zip(names, together, strict=True):
        state = VoiceState()
        frames = state.frames(to_int16(recordings.samples(name)), last=True)
        (alone,) = model.probabilities([(state, frames)])
        np.testing.assert_allclose(found, alone, atol=1e-5)


async def test_more_audio_than_may_wait_is_refused(detector: VoiceDetector) -> None:
    state = VoiceState()
    with pytest.raises(Overloaded, match="voice activity"):
        await detector.detect(state, state.frames(np.zeros(61 * 16_000, np.int16)))


async def test_who_waits_is_told_when_the_detector_stops() -> None:
    subject = VoiceDetector(max_queued_seconds=60)
    state = VoiceState()
    waiting = asyncio.create_task(
        subject.detect(state, state.frames(np.zeros(VAD_FRAME, np.int16)))
    )
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="load"):
        await subject.run()
    with pytest.raises(AuricleError, match="stopped"):
        await waiting
