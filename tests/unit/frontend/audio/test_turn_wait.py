"""A turn model ends turns, independently of the chunking of the audio."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.pcm import Int16
from auricle.audio.turn_model import TURN_SAMPLES
from auricle.audio.voice_activity import VAD_FRAME
from auricle.core.errors import DeadlineExceeded, SettingsError
from auricle.frontend.audio import turn_detection as turns
from auricle.frontend.audio.chunks import (
    AudioChunk,
    AudioEvent,
    SpeechEnd,
    SpeechOnset,
    TurnPause,
    TurnResumption,
)
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.audio.ingest import Ingest
from auricle.frontend.audio.turn_detection import (
    LOOK_MS,
    WAITS,
    Eagerness,
    TurnDetector,
    TurnWait,
    turn_model,
)
from tests.fakes.listening import LOUD, ByContent, carried, flat, listened, numbered
from tests.fakes.turn_model import judged

pytestmark = pytest.mark.unit
WAIT = TurnWait(sure=0.5, longest_ms=1_000)
OPTIONS = EndpointingOptions(threshold=0.5, min_silence_ms=320, pre_roll_ms=160, turns=WAIT)
# A turn of several segments: the client needs its text before the turn ends.
SEGMENTS = TurnWait(sure=0.6, longest_ms=1_500, least_ms=250, eager=0.3, speech_ms=320)
IN_SEGMENTS = replace(OPTIONS, turns=SEGMENTS)
# Frames after the first silent one at which the model runs: 7 frames are 224 ms, and two of them
# precede it.
ASKED = 5
SPEECH, SILENCE = [0.9] * 20, [0.0]
# Speech with pauses in which the model runs, and in which the connection may be cut.
TALK = st.lists(st.tuples(st.integers(4, 8), st.integers(1, 30)), min_size=1, max_size=4).map(
    lambda runs: [value for loud, quiet in runs for value in [0.9] * loud + [0.0] * quiet]
)
LAG = 2 * VAD_FRAME


def answered(gate: Endpointer, events: list[AudioEvent]) -> list[AudioEvent]:
    while gate.asks:
        events = [*events, *gate.answer(judged(gate.turn))]
    return events


def run(
    frames: list[float], *answers: float, options: EndpointingOptions = OPTIONS
) -> list[AudioEvent]:
    """The marks of the endpointer, without its chunks."""
    gate, left = Endpointer(options), list(answers)
    events = gate.push(numbered(len(frames) * VAD_FRAME), frames)
    while gate.asks:
        events += gate.answer(left.pop(0))
    assert not left
    return [event for event in events if not isinstance(event, AudioChunk)]


QUIET = 20 * VAD_FRAME - LAG  # the end of `SPEECH`'s speech


def test_a_turn_that_is_over_ends_at_once() -> None:
    assert run(SPEECH + SILENCE * ASKED, 0.5) == [SpeechOnset(0), SpeechEnd(QUIET, 0.5)]


def test_nobody_is_asked_of_a_shorter_pause() -> None:
    assert run(SPEECH + SILENCE * (ASKED - 1) + SPEECH) == [SpeechOnset(0)]


def test_a_turn_that_may_go_on_is_waited_for() -> None:
    # 600 ms: after 19 frames of 32 ms, including the two before the first silent one.
    waiting = SPEECH + SILENCE * 16
    paused = [SpeechOnset(0), TurnPause(QUIET, 0.25)]
    assert WAIT.after(0.25) == 600
    assert run(waiting, 0.25) == paused
    assert run([*waiting, 0.0], 0.25) == [*paused, SpeechEnd(QUIET)]


def test_a_turn_goes_on_and_is_asked_about_at_its_next_pause() -> None:
    found = run(SPEECH + SILENCE * 12 + SPEECH + SILENCE * ASKED, 0.1, 0.9)
    assert found == [
        SpeechOnset(0),
        TurnPause(QUIET, 0.1),
        TurnResumption(32 * VAD_FRAME),
        SpeechEnd(52 * VAD_FRAME - LAG, 0.9),
    ]


def test_the_model_hears_the_turn_alone_and_its_end_if_it_is_long() -> None:
    gate = Endpointer(OPTIONS)
    frames = [0.9] * 40 + SILENCE * 40 + [0.9] * 600 + SILENCE * 20
    samples = np.random.default_rng(0).integers(-9, 9, len(frames) * VAD_FRAME).astype(np.int16)
    gate.push(samples, frames)
    first = (40 + ASKED) * VAD_FRAME
    np.testing.assert_array_equal(gate.turn, samples[:first])
    gate.answer(1.0)
    end = (680 + ASKED) * VAD_FRAME
    assert end - 80 * VAD_FRAME > TURN_SAMPLES
    np.testing.assert_array_equal(gate.turn, samples[end - TURN_SAMPLES : end])
    short = Endpointer(OPTIONS)
    frames = [0.9] * 40 + SILENCE * 40 + [0.9] * 40 + SILENCE * 20
    short.push(samples, frames)
    short.answer(1.0)
    pre_roll = 160 * 16
    begin, end = 80 * VAD_FRAME - pre_roll, (120 + ASKED) * VAD_FRAME
    np.testing.assert_array_equal(short.turn, samples[begin:end])


def test_the_end_of_the_audio_needs_no_answer() -> None:
    gate = Endpointer(OPTIONS)
    frames = SPEECH + SILENCE * (ASKED - 1)
    gate.push(numbered(len(frames) * VAD_FRAME + 10), frames)
    assert gate.finish([0.0])[-1] == SpeechEnd(QUIET)
    assert not gate.asks
    with pytest.raises(RuntimeError):
        gate.answer(0.5)


def test_a_turn_that_may_be_over_gets_its_text_and_is_heard_whole_if_it_goes_on() -> None:
    gate = Endpointer(IN_SEGMENTS)
    frames = SPEECH + SILENCE * 15 + SPEECH + SILENCE * 60 + SPEECH + SILENCE * ASKED
    samples = np.random.default_rng(0).integers(-9, 9, len(frames) * VAD_FRAME).astype(np.int16)
    gate.push(samples, frames)
    assert SpeechEnd(QUIET, 0.4) in gate.answer(0.4)
    second = (55 + ASKED) * VAD_FRAME  # 544 ms later; the turn would have ended after 633
    np.testing.assert_array_equal(gate.turn, samples[:second])
    gate.answer(0.1)  # the turn ends after 1283 ms
    third = 115 * VAD_FRAME  # 1984 ms later
    np.testing.assert_array_equal(gate.turn, samples[third - 160 * 16 : third + 25 * VAD_FRAME])


def test_speech_ends_before_a_turn_that_is_waited_for() -> None:
    paused = [SpeechOnset(0), TurnPause(QUIET, 0.1)]
    # 320 ms: after 10 frames, including the two before the first silent one.
    assert run(SPEECH + SILENCE * 7, 0.1, options=IN_SEGMENTS) == paused
    stopped = [*paused, SpeechEnd(QUIET)]
    assert run(SPEECH + SILENCE * 8, 0.1, options=IN_SEGMENTS) == stopped


def test_a_session_does_not_rest_while_its_turn_may_go_on() -> None:
    gate = Endpointer(IN_SEGMENTS)
    frames = SPEECH + SILENCE * 17  # 608 ms of 633
    assert SEGMENTS.after(0.4) == 633
    gate.push(numbered(len(frames) * VAD_FRAME), frames)
    assert SpeechEnd(QUIET, 0.4) in gate.answer(0.4)
    assert gate.resting_at is None
    gate.push(numbered(VAD_FRAME), SILENCE)
    assert gate.resting_at is not None


@pytest.mark.parametrize("options", [OPTIONS, IN_SEGMENTS])
@settings(max_examples=60, deadline=None)
@given(loud=LOUD | TALK, cuts=st.lists(st.floats(0, 1), max_size=8))
def test_the_cuts_do_not_show(
    options: EndpointingOptions, loud: list[float], cuts: list[float]
) -> None:
    samples = numbered(len(loud) * VAD_FRAME)
    gate = Endpointer(options)
    at_once = answered(gate, gate.push(samples, loud)) + gate.finish([])
    often, gate = [], Endpointer(options)
    places = sorted({0, len(samples), *(int(cut * len(samples)) for cut in cuts)})
    for begin, end in pairwise(places):
        found = gate.push(samples[begin:end], loud[begin // VAD_FRAME : end // VAD_FRAME])
        often += answered(gate, found)
    assert flat(often + gate.finish([])) == flat(at_once)


@pytest.mark.parametrize("options", [OPTIONS, IN_SEGMENTS])
@settings(max_examples=60, deadline=None)
@given(loud=LOUD | TALK, cut=st.floats(0, 1))
def test_a_gate_that_goes_on_elsewhere_asks_and_finds_the_same(
    options: EndpointingOptions, loud: list[float], cut: float
) -> None:
    samples = numbered(len(loud) * VAD_FRAME)
    alone = Endpointer(options)
    undisturbed = answered(alone, alone.push(samples, loud)) + alone.finish([])
    at = int(cut * len(samples))
    first = Endpointer(options)
    before = answered(first, first.push(samples[:at], loud[: at // VAD_FRAME]))
    second = Endpointer(options, first.kept_from, first.state)
    found = second.push(samples[first.kept_from :], loud[at // VAD_FRAME :])
    assert flat(before + answered(second, found) + second.finish([])) == flat(undisturbed)


@settings(max_examples=25, deadline=None)
@given(LOUD | TALK, st.floats(0, 1), st.integers(1, 5_000), st.integers(1, 5_000))
def test_sessions_find_the_same_turns_however_packets_come_and_wherever_they_go_on(
    loud: list[float], cut: float, packet: int, other: int
) -> None:
    pcm = np.repeat((np.array(loud) * 32767).astype("<i2"), VAD_FRAME)
    pcm += np.arange(len(pcm), dtype="<i2") % 50  # ByContent reads only the first sample of a frame
    data, half = pcm.tobytes(), int(cut * len(pcm)) * 2

    async def judge(heard: Int16) -> float:
        await asyncio.sleep(0)
        return judged(heard)

    def ingest(**more: object) -> Ingest:
        return Ingest(16_000, "pcm_s16le", ByContent(), OPTIONS, turn_probability=judge, **more)  # type: ignore[arg-type]

    async def both() -> None:
        alone = ingest()
        undisturbed = await listened(alone, data, packet) + await alone.end()
        first = ingest()
        before = await listened(first, data[:half], other)
        point = carried(first.checkpoint)
        second = ingest(start=point)
        after = await listened(second, data[2 * point.sample :], other) + await second.end()
        assert flat(before + after) == flat(undisturbed)

    asyncio.run(both())


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
def test_the_surer_the_sooner_and_never_longer_than_the_longest(eagerness: Eagerness) -> None:
    wait = WAITS[eagerness]
    waits = [wait.after(share / 100) for share in range(101)]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] == wait.longest_ms
    assert all(one >= LOOK_MS or one == 0 for one in waits)


def test_a_turn_of_several_segments_ends_after_its_speech() -> None:
    waits = [(SEGMENTS.speech_after(p / 100), SEGMENTS.after(p / 100)) for p in range(101)]
    assert all(speech_ms <= turn_ms for speech_ms, turn_ms in waits)
    assert (waits[0], waits[29]) == ((320, 1_500), (320, SEGMENTS.after(0.29)))
    assert (waits[30], waits[59]) == ((0, 850), (0, 250))
    assert waits[60] == waits[100] == (250, 250)
    assert [SEGMENTS.may_be_over(p) for p in (0.29, 0.3, 0.59, 0.6)] == [False, True, True, False]


def test_of_a_threshold_of_one_nobody_is_ever_sure() -> None:
    never = TurnWait(sure=1.0, longest_ms=3_000)
    assert [never.after(probability) for probability in (0.0, 0.5, 0.99, 1.0)] == [3_000] * 4
    assert TurnWait(sure=0.0, longest_ms=3_000).after(0.0) == 0


def test_the_more_eager_the_sooner() -> None:
    for share in range(101):
        low, medium, high = (WAITS[name].after(share / 100) for name in ("low", "medium", "high"))
        assert low >= medium >= high


# ── the model's threads ─────────────────────────────────────────────────────


class Slow:
    def __init__(self) -> None:
        self.release = threading.Event()

    def probability(self, pcm: Int16) -> float:
        assert self.release.wait(60)
        return len(pcm) / 10


async def test_two_threads_answer_two_sessions_at_a_time() -> None:
    together = threading.Barrier(2)

    class Together:
        def probability(self, pcm: Int16) -> float:
            together.wait(60)
            return len(pcm) / 10

    detector = TurnDetector(Together, 2)
    await detector.load()
    asked = (detector.probability("client", numbered(count)) for count in (1, 2))
    assert await asyncio.gather(*asked) == [0.1, 0.2]
    detector.close()


async def test_a_model_that_fails_fails_that_question_alone() -> None:
    class Failing:
        def probability(self, pcm: Int16) -> float:
            if not len(pcm):
                raise ValueError("no audio")
            return 0.5

    detector = TurnDetector(Failing, 1)
    await detector.load()
    with pytest.raises(ValueError, match="no audio"):
        await detector.probability("client", numbered(0))
    assert await detector.probability("client", numbered(1)) == 0.5
    detector.close()


async def test_clients_take_turns_however_many_sessions_each_has() -> None:
    asked: list[int] = []
    held = threading.Event()

    class Recording:
        def probability(self, pcm: Int16) -> float:
            asked.append(len(pcm))
            assert held.wait(60)
            return 0.5

    detector = TurnDetector(Recording, 1)
    await detector.load()
    many = [asyncio.create_task(detector.probability("many", numbered(n))) for n in range(40)]
    await asyncio.sleep(0)
    other = asyncio.create_task(detector.probability("other", numbered(1_000)))
    await asyncio.sleep(0)
    held.set()
    await asyncio.gather(other, *many)
    assert asked.index(1_000) <= 2  # one was running, and it was the turn of the other client
    detector.close()


async def test_a_question_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_DEADLINE_SECONDS", 0.01)
    model = Slow()
    detector = TurnDetector(lambda: model, 1)
    await detector.load()
    with pytest.raises(DeadlineExceeded, match="turn detection"):
        await detector.probability("client", numbered(1))
    model.release.set()
    detector.close()


def test_a_file_that_is_no_turn_model_is_named() -> None:
    with pytest.raises(SettingsError, match=r"turn_model /nowhere\.onnx does not exist"):
        turn_model(Path("/nowhere.onnx"))
    with pytest.raises(SettingsError, match=r"test_turn_wait\.py is not a loadable ONNX"):
        turn_model(Path(__file__))
