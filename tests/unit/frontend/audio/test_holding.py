"""Audio that is held back is forwarded after its client falls silent, in order and only once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.core.errors import WorkerUnavailable
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.holding import Holding, HoldTimer
from auricle.frontend.session.adapter import ChannelOptions
from auricle.frontend.session.channels import SessionEngine, TextChannel
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.live_sessions import LiveSession, Record
from auricle_testing.noise import speech_like
from tests.fakes.tcp_port import frontend
from tests.fakes.virtual_time import VirtualLoop, run

pytestmark = pytest.mark.unit
QUIET, LONGEST = 0.06, 0.25


def loop() -> VirtualLoop:
    found = asyncio.get_running_loop()
    assert isinstance(found, VirtualLoop)
    return found


def due_after(comes: Sequence[float], released: float | None = None) -> float | None:
    """The time at which it is due, if more audio arrives at these times."""

    async def waited() -> float | None:
        due: list[float] = []
        timer = HoldTimer(lambda: due.append(loop().time()))
        for at in comes:
            loop().call_at(at, timer.held)
        if released is not None:
            loop().call_at(released, timer.released)
        await asyncio.sleep(10.0)
        assert loop().timers == 0
        return due[0] if due else None

    return run(waited())


def test_it_is_due_once_nothing_more_comes() -> None:
    assert due_after([1.0]) == pytest.approx(1.0 + QUIET, abs=0.002)
    assert due_after([1.0, 1.0, 1.02]) == pytest.approx(1.02 + QUIET, abs=0.002)


def test_a_packet_may_be_as_late_again_as_the_one_before() -> None:
    assert due_after([1.0, 1.05]) == pytest.approx(1.05 + 0.1, abs=0.002)
    assert due_after([1.0, 1.2]) == pytest.approx(1.0 + QUIET, abs=0.002)


def test_it_is_due_after_a_while_though_more_comes() -> None:
    trickle = [1.0 + 0.05 * n for n in range(6)]
    assert due_after(trickle) == pytest.approx(1.0 + LONGEST, abs=0.002)


@pytest.mark.parametrize("packet", [0.02, 0.05, 0.1, 0.12])
def test_no_audio_of_a_live_client_is_due_before_its_tick_is_full(packet: float) -> None:
    """Packets come in real time, and are processed every 160 ms."""

    async def live() -> None:
        due: list[float] = []
        timer = HoldTimer(lambda: due.append(loop().time()))
        held = 0.0
        for _ in range(200):
            await asyncio.sleep(packet)
            held += packet
            if held >= 0.16:
                held = 0.0
                timer.released()
            else:
                timer.held()
        assert not [at for at in due if at > 2 * packet + LONGEST]
        timer.close()

    run(live())


def test_what_is_released_is_not_due() -> None:
    assert due_after([1.0, 1.02], released=1.05) is None


def test_what_came_while_the_loop_was_late_counts() -> None:
    """The loop runs its timers before it reads."""
    late = 1.0 + QUIET + 0.0005
    assert due_after([1.0, late]) == pytest.approx(late + 2 * (late - 1.0), abs=0.002)


def test_there_is_no_timer_unless_something_is_held() -> None:
    async def looked() -> None:
        timer = HoldTimer(lambda: None)
        assert loop().timers == 0
        for _ in range(100):
            timer.held()
        assert loop().timers == 1
        timer.close()
        assert loop().timers == 0

    run(looked())


# ── one session ─────────────────────────────────────────────────────────────


class Held:
    """Takes numbers, three at a time; `passed` lists the forwarded ones."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.passed: list[int] = []
        self.holding = Holding(lambda: bool(self.waiting), self.pass_on)
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def pass_on(self) -> None:
        if self.error is not None:
            raise self.error
        taken, self.waiting = self.waiting, []
        await self.gate.wait()
        self.passed += taken

    async def take(self, number: int) -> None:
        async with self.holding:
            self.waiting.append(number)
            if len(self.waiting) == 3:
                await self.pass_on()


def with_held(test: Callable[[Held, asyncio.Task[None]], Awaitable[None]]) -> None:
    async def tested() -> None:
        held = Held()
        passing = asyncio.create_task(held.holding.run())
        await test(held, passing)
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)
        assert loop().timers == 0

    run(tested())


def test_what_is_held_is_passed_on() -> None:
    async def test(held: Held, _: asyncio.Task[None]) -> None:
        for number in range(5):
            await held.take(number)
        assert held.passed == [0, 1, 2]
        await asyncio.sleep(0.1)
        assert held.passed == [0, 1, 2, 3, 4]

    with_held(test)


def test_what_comes_while_it_is_passed_on_follows_it() -> None:
    async def test(held: Held, _: asyncio.Task[None]) -> None:
        held.gate.clear()
        await held.take(0)
        await asyncio.sleep(0.1)
        assert held.holding.busy
        taking = [asyncio.create_task(held.take(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0.1)
        assert held.passed == []
        held.gate.set()
        await asyncio.gather(*taking)
        assert not held.holding.busy
        assert held.passed == [0, 1, 2, 3]

    with_held(test)


def test_what_came_before_its_turn_is_not_passed_on_early() -> None:
    """At the due time, the reader is processing the session, so it is not due any more."""

    async def test(held: Held, _: asyncio.Task[None]) -> None:
        held.gate.clear()
        taking = [asyncio.create_task(held.take(number)) for number in range(3)]
        await asyncio.sleep(QUIET / 2)
        following = asyncio.create_task(held.take(3))
        await asyncio.sleep(1.0)
        held.gate.set()
        await asyncio.gather(*taking, following)
        assert held.passed == [0, 1, 2]
        await asyncio.sleep(0.1)
        assert held.passed == [0, 1, 2, 3]

    with_held(test)


def test_nothing_is_passed_on_after_the_end() -> None:
    async def test(held: Held, _: asyncio.Task[None]) -> None:
        await held.take(0)
        held.holding.close()
        await asyncio.sleep(1.0)
        await held.take(1)
        await asyncio.sleep(1.0)
        assert held.passed == []

    with_held(test)


def test_an_error_in_what_is_passed_on_is_the_sessions() -> None:
    async def test(held: Held, passing: asyncio.Task[None]) -> None:
        held.error = WorkerUnavailable("no room")
        await held.take(0)
        with pytest.raises(WorkerUnavailable, match="no room"):
            await passing

    with_held(test)


# ── a channel of a call ─────────────────────────────────────────────────────


class Pieces:
    """Replaces the transcript bus: records the audio that was forwarded."""

    def __init__(self) -> None:
        self.heard_pieces: list[AudioChunk] = []

    def listener(self, _spoken: object) -> Any:
        return SimpleNamespace(on_audio=self.heard_pieces.append, on_event=lambda _event: None)

    def state(self) -> None:
        return None

    @property
    def samples(self) -> list[tuple[int, bytes]]:
        """Adjacent chunks joined."""
        found: list[tuple[int, bytes]] = []
        for piece in self.heard_pieces:
            data = piece.pcm.tobytes()
            if found and found[-1][0] + len(found[-1][1]) // 2 == piece.start:
                found[-1] = (found[-1][0], found[-1][1] + data)
            else:
                found.append((piece.start, data))
        return found


def spoken(packets: list[tuple[bytes, float]]) -> Pieces:
    """The audio that a call forwards, with this silence in seconds after each packet."""
    pieces = Pieces()

    async def call() -> None:
        channel = TextChannel(
            frontend(cast(Any, pieces)), SPEAKER, ChannelOptions(sample_rate=16_000)
        )

        async def reading() -> None:
            for data, seconds in packets:
                await channel.take(data)
                await asyncio.sleep(seconds)

        await SessionEngine(frontend(), channel).follow(reading())
        assert len(asyncio.all_tasks()) == 1
        assert not channel.holding._timer._timer

    run(call())
    return pieces


SPEECH = speech_like(60_000)
OPTIONS = ChannelOptions(sample_rate=16_000)
SPEAKER = LiveSession(ClientAccount(ANYONE), Record("test"))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9_000), st.sampled_from([0.0, 0.02, 0.079, 0.081, 0.1, 0.3])),
        max_size=40,
    )
)
def test_however_a_client_pauses_the_same_speech_is_passed_on(
    packets: list[tuple[int, float]],
) -> None:
    cut, at = [], 0
    for size, seconds in packets:
        cut.append((SPEECH[at : at + size], seconds))
        at += size
    assert spoken([*cut, (SPEECH[at:], 0.0)]).samples == spoken([(SPEECH, 0.0)]).samples


def test_a_client_that_leaves_while_its_audio_is_held_leaves_nothing_behind() -> None:
    async def call() -> None:
        channel = TextChannel(frontend(), SPEAKER, OPTIONS)

        async def reading() -> None:
            await channel.take(np.full(16_500, 8_000, "<i2").tobytes())
            raise WorkerUnavailable("gone")

        with pytest.raises(WorkerUnavailable, match="gone"):
            await SessionEngine(frontend(), channel).follow(reading())
        assert len(asyncio.all_tasks()) == 1
        assert not channel.holding._timer._timer

    run(call())
