"""Voice activity of many streams at once, with the real model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np
import pytest

from auricle.audio.pcm import Int16, to_int16
from auricle.audio.voice_activity import (
    VAD_FRAME,
    Floats,
    VoiceActivityModel,
    VoiceActivitySequence,
    VoiceState,
)
from auricle.core.errors import AuricleError
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, SpeechOnset
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.audio.voice_activity import VoiceDetector
from auricle_testing import recordings
from auricle_testing.server import eventually

pytestmark = pytest.mark.unit


@pytest.fixture
async def detector() -> AsyncIterator[VoiceDetector]:
    subject = VoiceDetector()
    await subject.load()
    running = asyncio.create_task(subject.run())
    yield subject
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(params=[0, 99], ids=["many", "few"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Many streams share calls of the model; a few streams have one call each."""
    monkeypatch.setattr("auricle.audio.voice_activity._FEW_STREAMS", request.param)
    return int(request.param)


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


@pytest.mark.usefixtures("form")
async def test_streams_side_by_side_are_heard_as_if_alone(detector: VoiceDetector) -> None:
    names = ("hello", "kitchen", "station")
    together = await asyncio.gather(
        *(
            detect(detector, recordings.samples(name), 3_000 + 1_000 * i)
            for i, name in enumerate(names)
        )
    )
    model = VoiceActivitySequence()
    for name, found in zip(names, together, strict=True):
        state = VoiceState()
        frames = state.frames(to_int16(recordings.samples(name)), last=True)
        alone = model.probabilities(state, frames)
        np.testing.assert_allclose(found, alone, atol=1e-5)


@pytest.mark.parametrize("block_seconds", [0.1, 1, 10])
def test_a_recording_is_heard_as_live_sessions_are(
    block_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many frames in one call give the same values as frame after frame."""
    monkeypatch.setattr("auricle.audio.voice_activity._FEW_STREAMS", 0)
    pcm, block = to_int16(recordings.samples("kitchen")), int(block_seconds * 16_000)
    live, recorded = VoiceState(), VoiceState()
    (expected,) = VoiceActivityModel().probabilities([(live, live.frames(pcm, last=True))])
    model = VoiceActivitySequence()
    blocks = [recorded.frames(pcm[at : at + block]) for at in range(0, len(pcm), block)]
    blocks.append(recorded.frames(pcm[:0], last=True))
    found = np.concatenate([model.probabilities(recorded, frames) for frames in blocks])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(recorded.recurrent, live.recurrent, atol=1e-4)


@pytest.mark.usefixtures("form")
def test_streams_of_different_lengths_are_heard_together_as_if_alone() -> None:
    model, names = VoiceActivityModel(), ("hello", "kitchen", "station")
    of_one = VoiceActivitySequence()
    alone, together = [VoiceState() for _ in names], [VoiceState() for _ in names]
    pcm = [to_int16(recordings.samples(name)) for name in names]
    at = 0
    for sizes in ((3_000, 0, 1_000), (600, 2_600, 5_200), (512, 512, 512), (9_000, 1, 4_000)):
        cut = [audio[at : at + size] for audio, size in zip(pcm, sizes, strict=True)]
        at += max(sizes)
        found = model.probabilities([(s, s.frames(c)) for s, c in zip(together, cut, strict=True)])
        for state, audio, values in zip(alone, cut, found, strict=True):
            expected = of_one.probabilities(state, state.frames(audio))
            np.testing.assert_allclose(values, expected, atol=1e-5)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one.recurrent, other.recurrent, atol=1e-4)
        np.testing.assert_array_equal(one.context, other.context)


@pytest.mark.parametrize("name", ["hello", "kitchen", "station", "market", "evening"])
def test_what_is_speech_does_not_depend_on_how_many_others_speak(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two forms of the network differ in the last bits, but not in any decision."""
    noise = np.random.default_rng(0).normal(0, 0.01, len(recordings.samples(name)))
    pcm = to_int16((recordings.samples(name) + noise).astype(np.float32))
    found = []
    for few in (0, 99):
        monkeypatch.setattr("auricle.audio.voice_activity._FEW_STREAMS", few)
        found.append(list(decided(pcm)))
    assert found[0] == found[1]
    assert any(isinstance(event, SpeechOnset) for event in found[0])


def decided(pcm: Int16) -> Iterator[object]:
    """The events of a session's audio, 160 ms at a time; positions replace the chunks."""
    model, state = VoiceActivityModel(), VoiceState()
    gate = Endpointer(EndpointingOptions(threshold=0.5, min_silence_ms=300, pre_roll_ms=200))
    events: list[AudioEvent] = []
    for at in range(0, len(pcm), 5 * VAD_FRAME):
        heard = pcm[at : at + 5 * VAD_FRAME]
        (values,) = model.probabilities([(state, state.frames(heard))])
        events += gate.push(heard, values.tolist())
    (values,) = model.probabilities([(state, state.frames(pcm[:0], last=True))])
    for event in [*events, *gate.finish(values.tolist())]:
        piece = isinstance(event, AudioChunk)
        yield (event.start, event.end, event.boundary) if piece else event


class Watched:
    """A model that counts the frames of each call, and waits in its thread for an event."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go = threading.Semaphore(0)

    def probabilities(self, streams: Sequence[tuple[VoiceState, Floats]]) -> list[Floats]:
        self.calls.append([len(frames) for _, frames in streams])
        assert self.go.acquire(timeout=60)
        return [np.full(len(frames), 0.5, np.float32) for _, frames in streams]


async def test_a_stream_that_is_far_ahead_delays_others_by_one_round_only() -> None:
    model = Watched()
    subject = VoiceDetector(lambda: model)
    await subject.load()
    running = asyncio.create_task(subject.run())

    def waiting(frames: int) -> asyncio.Task[list[float]]:
        return asyncio.create_task(
            subject.detect(VoiceState(), np.zeros((frames, VAD_FRAME), np.float32))
        )

    ahead = [waiting(500) for _ in range(3)]  # 16 s each
    await eventually(lambda: len(model.calls) == 1, seconds=60)
    live = waiting(2)
    await asyncio.sleep(0)  # it is called while the first round is computed
    model.go.release(2)
    assert await live == [0.5, 0.5]  # and nothing is rejected, for any backlog
    assert model.calls[:2] == [[5, 5, 5], [5, 5, 5, 2]]
    model.go.release(10_000)
    assert [len(found) for found in await asyncio.gather(*ahead)] == [500] * 3
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_who_waits_is_told_when_the_detector_stops() -> None:
    subject = VoiceDetector()
    state = VoiceState()
    waiting = asyncio.create_task(
        subject.detect(state, state.frames(np.zeros(VAD_FRAME, np.int16)))
    )
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="load"):
        await subject.run()
    with pytest.raises(AuricleError, match="stopped"):
        await waiting
