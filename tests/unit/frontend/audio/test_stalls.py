"""A client that stops sending is silent: its speech ends, and later audio is another segment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.pcm import Int16
from auricle.audio.voice_activity import VAD_FRAME
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
from auricle.frontend.audio.resume_state import AudioCheckpoint, Stall
from auricle.frontend.audio.stalls import LEAD_SECONDS, LEAST_SECONDS, Reading, StallTimer
from auricle.frontend.audio.turn_detection import TurnWait
from tests.fakes.listening import LOUD, ByContent, carried, flat, numbered
from tests.fakes.turn_model import judged
from tests.fakes.virtual_time import VirtualLoop, run

pytestmark = pytest.mark.unit
SECOND = 16_000
OPTIONS = EndpointingOptions(threshold=0.5, min_silence_ms=320, pre_roll_ms=160)
TURNS = replace(OPTIONS, turns=TurnWait(sure=0.5, longest_ms=4_000))
IN_SEGMENTS = replace(
    OPTIONS, turns=TurnWait(sure=0.6, longest_ms=1_500, least_ms=250, eager=0.3, speech_ms=320)
)
SPEECH, SILENCE = [0.9] * 20, [0.0]


def marks(events: list[AudioEvent]) -> list[AudioEvent]:
    return [event for event in events if not isinstance(event, AudioChunk)]


class Talk:
    """Frames of speech and silence, and stalls, for one endpointer."""

    def __init__(self, options: EndpointingOptions, *answers: float) -> None:
        self.gate = Endpointer(options)
        self.answers = list(answers)
        self.samples = 0

    def hear(self, frames: list[float], rest: int = 0) -> list[AudioEvent]:
        count = len(frames) * VAD_FRAME + rest
        pcm = numbered(self.samples + count)[self.samples :]
        self.samples += count
        return self._answered(self.gate.push(pcm, frames))

    def stall(self, seconds: float) -> list[AudioEvent]:
        return self._answered(self.gate.stall(round(seconds * SECOND)))

    def _answered(self, events: list[AudioEvent]) -> list[AudioEvent]:
        while self.gate.asks:
            events = events + self.gate.answer(self.answers.pop(0))
        return events


# ── one endpointer ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("rest", [0, 200])
def test_speech_ends_where_its_audio_does_and_more_is_a_segment_of_its_own(rest: int) -> None:
    talk = Talk(OPTIONS)
    heard = talk.hear(SPEECH, rest)
    assert talk.gate.stall_needed == OPTIONS.min_silence_ms * 16
    end = talk.samples
    stopped = talk.stall(1.0)
    assert marks(heard + stopped) == [SpeechOnset(0), SpeechEnd(end)]
    assert talk.gate.stall_needed is None
    assert talk.gate.resting_at == end
    more = talk.hear(SPEECH) + talk.stall(1.0)
    assert marks(more) == [SpeechOnset(end), SpeechEnd(talk.samples)]
    passed = [one for one in flat(heard + stopped + more) if isinstance(one[0], int)]
    assert [at for at, _ in passed if _ != "endpoint"] == list(range(talk.samples))
    assert [one for one in passed if one[1] == "endpoint"] == [
        (end, "endpoint"),
        (talk.samples, "endpoint"),
    ]


def test_a_recorded_silence_counts_too() -> None:
    talk = Talk(OPTIONS)
    talk.hear(SPEECH + SILENCE * 4)
    recorded = (4 + 2) * VAD_FRAME  # two frames before the first silent one
    assert talk.gate.stall_needed == OPTIONS.min_silence_ms * 16 - recorded
    assert talk.stall(0.1) == []
    assert marks(talk.hear(SILENCE)) == [SpeechEnd(20 * VAD_FRAME - 2 * VAD_FRAME)]


def test_a_short_word_before_a_stall_is_heard() -> None:
    talk = Talk(OPTIONS)
    assert marks(talk.hear(SILENCE * 30 + [0.9] * 3)) == []
    assert talk.gate.stall_needed == 0
    onset = 30 * VAD_FRAME
    assert marks(talk.stall(1.0)) == [SpeechOnset(onset), SpeechEnd(talk.samples)]


def test_a_click_before_a_stall_is_not_heard() -> None:
    talk = Talk(OPTIONS)
    assert marks(talk.hear(SILENCE * 30 + [0.9])) == []
    assert marks(talk.stall(1.0)) == []
    assert talk.gate.stall_needed is None
    assert marks(talk.hear([0.9] * 4 + SILENCE * 30)) == []


def test_nothing_happens_in_silence() -> None:
    talk = Talk(OPTIONS)
    assert talk.gate.stall_needed is None
    assert talk.stall(9.0) == []
    assert marks(talk.hear(SILENCE * 30)) == []
    assert talk.gate.stall_needed is None


def test_the_turn_model_decides_on_a_stall_as_on_a_recorded_pause() -> None:
    talk = Talk(TURNS, 0.5, 0.25)
    talk.hear(SPEECH)
    assert talk.gate.stall_needed == 200 * 16
    assert marks(talk.stall(1.0)) == [SpeechEnd(talk.samples, 0.5)]
    talk.hear(SPEECH)
    end = talk.samples
    assert TURNS.turns is not None
    wait_ms = TURNS.turns.after(0.25)
    assert marks(talk.stall(1.0)) == [TurnPause(end, 0.25)]
    assert talk.gate.stall_needed == wait_ms * 16
    assert marks(talk.stall(wait_ms / 1000)) == [SpeechEnd(end)]


def test_a_turn_continues_after_a_stall_that_was_not_its_end() -> None:
    talk = Talk(TURNS, 0.25, 0.5)
    talk.hear(SPEECH)
    end = talk.samples
    assert marks(talk.stall(1.0)) == [TurnPause(end, 0.25)]
    more = talk.hear(SPEECH)
    assert marks(more) == [TurnResumption(end)]
    assert flat(more)[1][0] == end
    assert marks(talk.stall(1.0)) == [SpeechEnd(talk.samples, 0.5)]


def test_one_long_stall_is_the_same_as_its_parts() -> None:
    parts, whole = Talk(TURNS, 0.25), Talk(TURNS, 0.25)
    found = parts.hear(SPEECH) + parts.stall(1.0) + parts.stall(4.0)
    assert flat(whole.hear(SPEECH) + whole.stall(4.0)) == flat(found)


def test_the_model_hears_a_pause_that_has_no_audio() -> None:
    gate = Endpointer(TURNS)
    pcm = np.full(20 * VAD_FRAME, 7, np.int16)
    gate.push(pcm, SPEECH)
    gate.stall(SECOND)
    assert gate.asks
    np.testing.assert_array_equal(gate.turn, np.concatenate([pcm, np.zeros(3_200, np.int16)]))


def test_what_comes_after_the_end_of_speech_does_not_depend_on_packets() -> None:
    """Speech ends by the time without audio; less audio than usual has come by then."""
    ends = []
    for packets in ([6], [1] * 6):
        talk = Talk(OPTIONS)
        talk.hear(SPEECH)
        talk.stall(0.2)
        events = [event for frames in packets for event in talk.hear(SILENCE * frames)]
        ends.append([e.end for e in events if isinstance(e, AudioChunk)][-1])
    assert ends[0] == ends[1]


# ── an ingest, resumed ──────────────────────────────────────────────────────

Sent = list[bytes | Stall]


async def listened(ingest: Ingest, sent: list[tuple[str, Any]]) -> list[AudioEvent]:
    events: list[AudioEvent] = []
    for kind, what in sent:
        if kind == "stall":
            events += await ingest.stall(what)
            continue
        ingest.take(what)
        while ingest.holds:
            events += await ingest.process()
    return events


@pytest.mark.parametrize("options", [OPTIONS, TURNS, IN_SEGMENTS])
@settings(max_examples=40, deadline=None)
@given(
    runs=st.lists(st.tuples(LOUD, st.sampled_from([0, 16_000, 40_000])), min_size=1, max_size=4),
    cut=st.floats(0, 1),
    again=st.floats(0, 1),
    odd=st.integers(0, 511),
)
def test_listening_resumed_among_stalls_continues_alike(
    options: EndpointingOptions,
    runs: list[tuple[list[float], int]],
    cut: float,
    again: float,
    odd: int,
) -> None:
    """The client sends its audio again from a checkpoint; the stalls after it are in the token."""
    script: list[tuple[str, Any]] = []
    for loud, stalled in runs:
        pcm = np.repeat((np.array(loud) * 32767).astype("<i2"), VAD_FRAME)
        data = pcm.tobytes() + bytes(2 * odd)
        script += [("audio", data[at : at + 3_000]) for at in range(0, len(data), 3_000)]
        script += [("stall", stalled)] if stalled else []
    half = int(cut * len(script))

    async def judge(turn: Int16) -> float:
        return judged(turn)

    def ingest(point: AudioCheckpoint | None = None, stalls: list[Stall] | None = None) -> Ingest:
        return Ingest(
            *(16_000, "pcm_s16le", ByContent(), options),  # type: ignore[arg-type]
            *(point or AudioCheckpoint(), 0, judge),
            stalls=stalls or (),
        )

    async def tested() -> None:
        alone = ingest()
        expected = await listened(alone, script) + await alone.end()
        first, after, before = ingest(), list[Stall](), list[AudioEvent]()
        point, until = AudioCheckpoint(), 0  # the checkpoint, and the number of events before it
        for at, step in enumerate(script[:half]):
            before += await listened(first, [step])
            if step[0] == "stall":
                after.append(Stall(first.total_samples, step[1]))
            found = first.checkpoint
            if found is not None and at <= again * half:
                point, after, until = carried(found), [], len(before)
        second = ingest(point, after)
        heard = b"".join(what for kind, what in script[:half] if kind == "audio")
        rest = await listened(second, [("audio", heard[2 * point.sample :]), *script[half:]])
        rest += await second.end()
        assert flat(before[:until] + rest) == flat(expected)
        assert second.total_samples == alone.total_samples

    asyncio.run(tested())


# ── the timer ───────────────────────────────────────────────────────────────


class Wire:
    """A reader and its timer, in virtual time; `due` has the times at which a stall was due.

    Pings are answered at once, and with `held` not before `answer`.
    """

    def __init__(
        self, needed: float | None = 0.5, before: Reading | None = None, *, held: bool = False
    ) -> None:
        self.needed = needed
        self.due: list[float] = []
        self.pings: list[Callable[[], None]] = []
        self.reading = Reading(before)
        ping = self.pings.append if held else lambda answered: answered()
        self.timer = StallTimer(lambda: self.needed, self._due, ping)
        self.timer.watch(self.reading)

    async def answer(self, *audio: float) -> None:
        """The network passes on the client's audio, then its answer to the ping."""
        for seconds in audio:
            await self.hear(seconds)
        (answered,) = self.pings
        self.pings.clear()
        answered()

    def _due(self) -> None:
        self.due.append(asyncio.get_running_loop().time())

    async def wait(self, seconds: float) -> None:
        """The reader waits for the client."""
        with self.reading.waiting():
            await asyncio.sleep(seconds)

    async def hear(self, seconds: float, work: float = 0.0) -> None:
        self.timer.heard(seconds)
        await asyncio.sleep(work)
        self.timer.check_later()


def in_time(test: Callable[[Wire], Awaitable[None]], **made: Any) -> Wire:
    async def tested() -> Wire:
        wire = Wire(**made)
        await test(wire)
        wire.timer.close()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert loop.timers == 0
        return wire

    return run(tested())


@pytest.mark.parametrize(("needed", "after"), [(0.1, LEAST_SECONDS), (3.0, 3.0)])
def test_a_stall_is_due_once_nothing_came_for_as_long_as_silence_must_last(
    needed: float, after: float
) -> None:
    async def test(wire: Wire) -> None:
        for _ in range(300):
            await wire.hear(0.02)
            await wire.wait(0.02)
        assert wire.due == []
        await wire.wait(20.0)

    (at,) = in_time(test, needed=needed).due
    assert at == pytest.approx(300 * 0.02 + after, abs=0.01)


@pytest.mark.parametrize("packet", [0.02, 0.5, 2.0, 4.9])
@pytest.mark.parametrize("late", [0.0, 0.9])
def test_a_client_in_real_time_never_stalls_whatever_its_packets(
    packet: float, late: float
) -> None:
    """Nor one whose packets come together, or late."""

    async def test(wire: Wire) -> None:
        for number in range(20):
            await wire.hear(packet / 2)
            await wire.hear(packet / 2)
            await wire.wait(packet + late * (number == 10))
        assert wire.due == []

    in_time(test)


def test_audio_that_was_sent_all_at_once_is_waited_for_a_bounded_time() -> None:
    async def test(wire: Wire) -> None:
        for _ in range(60):
            await wire.hear(1.0)
        await wire.wait(30.0)

    (at,) = in_time(test).due
    assert at == pytest.approx(LEAD_SECONDS + LEAST_SECONDS, abs=0.01)


def test_a_client_that_the_server_holds_up_does_not_stall() -> None:
    """Its messages wait while the processor is full, or its rate is exceeded."""

    async def test(wire: Wire) -> None:
        for _ in range(5):
            await wire.hear(0.02, work=10.0)
            await wire.wait(0.9)  # until the network brings more
        assert wire.due == []
        await wire.wait(2.0)
        assert len(wire.due) == 1

    in_time(test)


def test_a_client_whose_messages_wait_behind_others_does_not_stall() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        before = wire.reading._before
        assert before is not None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wire.wait(20.0))
            with before.waiting():
                await asyncio.sleep(0.5)
            await asyncio.sleep(10.0)  # the reader is busy with another session's message
            assert wire.due == []
            with before.waiting():
                await asyncio.sleep(0.9)
                assert wire.due == []
                await asyncio.sleep(0.2)
                assert len(wire.due) == 1

    in_time(test, before=Reading())


def test_messages_without_audio_do_not_end_a_stall() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        for _ in range(30):
            await wire.wait(0.1)

    (at,) = in_time(test).due
    assert at == pytest.approx(0.02 + LEAST_SECONDS, abs=0.01)


def test_what_arrived_while_the_loop_was_late_is_read_first() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        await wire.wait(0.02 + LEAST_SECONDS)  # the timer and the packet at the same time
        await wire.hear(0.02)
        await wire.wait(0.5)
        assert wire.due == []

    in_time(test)


def test_a_network_that_stalls_within_speech_does_not_end_it() -> None:
    async def test(wire: Wire) -> None:
        for _ in range(3):
            await wire.hear(0.02)
            await wire.wait(30.0)
            await wire.answer(2.0, 2.0)
            await wire.wait(4.0 + 0.9)
        assert wire.due == []

    in_time(test, held=True)


def test_a_client_that_answers_is_silent_since_its_audio_ended() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        await wire.wait(7.0)
        await wire.answer()
        with wire.reading.waiting():
            assert wire.timer.stalled is None
            await asyncio.sleep(0.1)
            assert wire.timer.stalled == LEAST_SECONDS

    (at,) = in_time(test, held=True).due
    assert at == pytest.approx(7.0, abs=0.01)


def test_each_length_of_silence_has_an_answer_of_its_own() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        await wire.wait(2.0)
        await wire.answer()
        await wire.wait(0.1)
        wire.needed = 4.0
        wire.timer.check_later()
        await wire.wait(4.0)
        await wire.answer(0.5)
        await wire.wait(4.0)
        assert len(wire.due) == 1
        await wire.wait(1.0)
        await wire.answer()
        await wire.wait(0.1)
        assert len(wire.due) == 2

    in_time(test, held=True)


def test_an_answer_after_the_end_changes_nothing() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        await wire.wait(2.0)
        wire.timer.close()
        await wire.answer()
        await wire.wait(2.0)
        assert wire.due == []

    in_time(test, held=True)


def test_there_is_no_timer_if_a_stall_changes_nothing() -> None:
    async def test(wire: Wire) -> None:
        await wire.hear(0.02)
        await wire.wait(5.0)
        assert wire.due == []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert loop.timers == 0

    in_time(test, needed=None)
