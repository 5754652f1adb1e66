"""A session's link to its processor survives that processor's death."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from unittest.mock import AsyncMock

import numpy as np
import pytest
from msgspec.structs import replace

from auricle.core.aio import cancelled, with_timeout
from auricle.core.errors import DeadlineExceeded, Overloaded, ProtocolError, WorkerUnavailable
from auricle.dynamo import Pulses, PulseTimes
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.link.processor_link import ProcessorEndpoints, ProcessorLink
from auricle.protocol.control import Alive, AskAlive
from auricle.protocol.sessions import (
    Accepted,
    EndAudio,
    Failed,
    HandedOver,
    OpenSession,
    PushAudio,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionEvent,
    SessionReady,
    WholeAudio,
)
from auricle.protocol.stream import Usage
from auricle_testing.server import eventually
from tests.fakes.push import piece

pytestmark = pytest.mark.unit
# Shorter than in other tests: a wait that exceeds it never ends.
TIMES = PulseTimes(probe_after=0.01, answer=0.05, part=1.0)
OPENED = OpenSession("s", "t", None, "", 640)
NAME = "a frontend"


class Processors:
    """Two processors. The first may die; the session ends with `EndAudio`."""

    def __init__(self) -> None:
        self.received: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        self.opened: list[tuple[int, OpenSession]] = []
        self.ended = asyncio.Event()
        self.dies_after_samples: int | None = None
        self.dead: set[int] = set()
        self.frozen: set[int] = set()
        self.callers: asyncio.Queue[str] = asyncio.Queue()  # of probes
        self.suspects: set[int] = set()
        self.arrived = asyncio.Event()

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        alive = [i for i in (1, 2) if i not in self.dead]
        return [i for i in alive if i not in avoid | self.suspects][:1] or alive

    async def others(self, instance: int) -> list[int]:
        return [i for i in (1, 2) if i not in self.dead | self.suspects | {instance}]

    def suspect(self, instance: int) -> None:
        self.suspects.add(instance)

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        self.opened.append((instance, message))
        yield SessionReady(message.session)
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            got = sum(count for _, count in self.received[instance])
            if self.dies_after_samples is not None and got >= self.dies_after_samples:
                self.dies_after_samples = None
                self.dead.add(instance)
                yield SegmentFinal(0, "one", 0, 1, "English", ResumePoint(1, 20_000, (), "one"))
                yield SegmentPartial(
                    1, "two", "", 2, "English", ResumePoint(1, 20_000, (5,), "one")
                )
                raise WorkerUnavailable("Unavailable: killed")
            if self.ended.is_set():
                yield SegmentFinal(
                    1, "two three", 1, 2, "English", ResumePoint(2, 40_000, (), "two")
                )
                yield SessionDone(Usage())
                return

    async def call(
        self, message: PushAudio | EndAudio | AskAlive, reply: object, instance: int, seconds: float
    ) -> Accepted | Alive:
        await asyncio.sleep(0)
        if instance in self.dead:
            raise WorkerUnavailable("Unavailable: dead")
        if instance in self.frozen:
            await with_timeout(seconds, asyncio.Event().wait(), "a frozen processor")
        if isinstance(message, AskAlive):
            self.callers.put_nowait(message.caller)
            return Alive(0.0, "")
        if isinstance(message, EndAudio):
            self.ended.set()
        else:
            self.received[instance].append((message.start_sample, len(message.pcm) // 2))
        self.arrived.set()
        return Accepted(0)


def link(processors: Processors) -> ProcessorLink:
    pulses = Pulses(processors, processors, TIMES, caller=NAME)  # type: ignore[arg-type]
    endpoints = ProcessorEndpoints(*[processors] * 5, pulses)  # type: ignore[arg-type]
    return ProcessorLink(endpoints, OPENED, deadline_seconds=60, choose_seconds=60)


async def heard(processors: Processors, *pieces: AudioChunk) -> list[SessionEvent]:
    """All events of a session with these chunks."""
    subject = link(processors)
    pump = asyncio.create_task(subject.pump())
    for one in pieces:
        await subject.add(one)
    subject.finish(pieces[-1].end)
    try:
        return [event async for event in subject.events()]
    finally:
        await cancelled([pump])


async def test_audio_of_the_open_segment_is_sent_again_to_the_next_processor() -> None:
    processors = Processors()
    processors.dies_after_samples = 30_000
    events = await heard(processors, piece(0, 30_000), piece(30_000, 10_000))
    assert [type(e) for e in events] == [
        SessionReady,
        SegmentFinal,
        SegmentPartial,
        SegmentFinal,
        SessionDone,
    ]
    (first, _), (second, reopened) = processors.opened
    assert (first, second) == (1, 2)
    assert reopened.resume == ResumePoint(1, 20_000, (5,), "one")
    assert reopened.session != OPENED.session
    # Only the open segment's audio is sent again.
    assert min(start for start, _ in processors.received[2]) == 20_000
    assert max(start + count for start, count in processors.received[2]) == 40_000


async def test_a_processor_can_tell_whose_probes_keep_a_session() -> None:
    processors = Processors()
    events = link(processors).events()
    assert isinstance(await anext(events), SessionReady)
    following = asyncio.create_task(anext(events))  # a silent client: only probes are sent
    async with asyncio.timeout(60):
        name = await processors.callers.get()
    await cancelled([following])
    assert name == processors.opened[0][1].frontend == NAME


async def test_audio_is_sent_again_even_if_the_client_is_silent_now() -> None:
    """All audio had been sent and no more arrives: the open segment must not wait for it."""
    processors = Processors()
    processors.dies_after_samples = 30_000
    subject = link(processors)
    pump = asyncio.create_task(subject.pump())
    await subject.add(piece(0, 30_000))
    events = subject.events()
    kinds = [type(await anext(events)) for _ in range(3)]
    assert kinds == [SessionReady, SegmentFinal, SegmentPartial]
    moving = asyncio.ensure_future(anext(events))  # the second processor sends no event yet
    await eventually(lambda: bool(processors.received[2]), seconds=60)
    assert processors.received[2] == [(20_000, 10_000)]
    for task in (pump, moving):
        task.cancel()
    await asyncio.gather(pump, moving, return_exceptions=True)
    await events.aclose()


async def test_a_processor_that_refuses_audio_ends_the_session() -> None:
    class Refusing(Processors):
        async def call(self, message: object, *_: object) -> Accepted | Alive:
            if isinstance(message, AskAlive):
                return Alive(0.0, "")
            raise ProtocolError("no such session")

    subject = link(Refusing())
    pump = asyncio.create_task(subject.pump())
    events = subject.events()
    await anext(events)
    await subject.add(piece(0, 10_240))
    with pytest.raises(ProtocolError, match="no such session"):
        await pump
    await events.aclose()


async def test_audio_whose_text_is_final_is_forgotten() -> None:
    processors = Processors()
    processors.dies_after_samples = 30_000
    subject = link(processors)
    pump = asyncio.create_task(subject.pump())
    await subject.add(piece(0, 30_000))
    subject.finish(30_000)
    kept = []
    async for event in subject.events():
        if (
            isinstance(event, SegmentPartial | SegmentFinal)
            and event.resume.segment_start == 20_000
        ):
            audio = subject._line._kept
            kept.append(sum(piece.end - piece.start for piece in (*audio._sent, *audio._waiting)))
    await cancelled([pump])
    assert kept == [10_000, 10_000]


async def test_a_push_that_fails_once_is_made_again() -> None:
    class Flaky(Processors):
        failed = False

        async def call(self, *arguments: object) -> Accepted | Alive:
            if not self.failed:
                self.failed = True
                raise WorkerUnavailable("Unavailable: for a moment")
            return await super().call(*arguments)  # type: ignore[arg-type]

    processors = Flaky()
    kinds = [type(event) for event in await heard(processors, piece(0, 100))]
    assert kinds[-1] is SessionDone
    assert processors.received[1] == [(0, 100)]


async def test_a_client_is_held_back_while_the_processor_is_behind() -> None:
    subject = link(Processors())
    await subject.add(piece(0, 41 * 16_000))
    waiting = asyncio.create_task(subject.add(piece(41 * 16_000, 10)))
    await asyncio.sleep(0)
    assert not waiting.done()
    pump = asyncio.create_task(subject.pump())
    events = subject.events()
    await anext(events)
    await waiting
    await cancelled([pump])
    await events.aclose()


async def test_a_session_fails_with_the_error_of_its_processor() -> None:
    class Failing(Processors):
        async def stream(
            self, message: OpenSession, reply: object, instance: int
        ) -> AsyncGenerator[SessionEvent, None]:
            self.opened.append((instance, message))
            yield SessionReady(message.session)
            yield Failed("overloaded", "no room")

    processors, events = Failing(), list[SessionEvent]()

    async def handle(event: SessionEvent) -> None:
        events.append(event)

    with pytest.raises(Overloaded, match="no room"):
        await link(processors).run(handle)
    assert [type(event) for event in events] == [SessionReady]
    assert len(processors.opened) == 1  # no other processor is tried


class Unconnected(Processors):
    """Two processors; the instances `unconnected` reach no worker."""

    def __init__(self, *unconnected: int) -> None:
        super().__init__()
        self.unconnected = unconnected

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        if instance not in self.unconnected:
            async for event in super().stream(message, reply, instance):
                yield event
            return
        self.opened.append((instance, message))
        yield SessionReady(message.session)
        yield Failed(WorkerUnavailable.code, "no worker")


async def test_a_session_leaves_a_processor_that_reaches_no_worker() -> None:
    processors = Unconnected(1)
    events = await heard(processors, piece(0, 30_000))
    assert [type(event) for event in events] == [SessionReady, SegmentFinal, SessionDone]
    assert [instance for instance, _ in processors.opened] == [1, 2]


async def test_a_session_fails_if_no_processor_reaches_a_worker() -> None:
    processors = Unconnected(1, 2)
    with pytest.raises(WorkerUnavailable, match="no worker"):
        await heard(processors, piece(0, 30_000))
    assert {instance for instance, _ in processors.opened} == {1, 2}


async def test_the_only_processor_is_not_asked_twice_for_workers_that_it_does_not_reach() -> None:
    processors = Unconnected(1)
    processors.dead.add(2)
    with pytest.raises(WorkerUnavailable, match="no worker"):
        await heard(processors, piece(0, 30_000))
    assert [instance for instance, _ in processors.opened] == [1]


async def test_a_session_leaves_a_processor_that_discovery_lists_no_more() -> None:
    """Requests to it fail, while the connection with its events stays open."""
    processors = Processors()
    processors.dead.add(1)
    processors.usable = AsyncMock(side_effect=[[1], [2]])  # type: ignore[method-assign]
    events = await heard(processors, piece(0, 30_000))
    assert [type(event) for event in events] == [SessionReady, SegmentFinal, SessionDone]
    assert [instance for instance, _ in processors.opened] == [1, 2]


class HandingOver(Processors):
    """A processor that hands its sessions over, at each request."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        self.opened.append((instance, message))
        yield SessionReady(message.session)
        if self.times:
            self.times -= 1
            await self._heard(instance)
            yield HandedOver(ResumePoint(1, 20_000, (5,), "one"))
            return
        await self._heard(instance)
        await self.ended.wait()
        yield SessionDone(Usage())

    async def _heard(self, instance: int) -> None:
        """Wait until this session has received audio."""
        self.received[instance].clear()
        while not self.received[instance]:
            await self.arrived.wait()
            self.arrived.clear()


async def test_a_session_that_is_handed_over_goes_on_where_it_was() -> None:
    processors = HandingOver(times=1)
    kinds = [type(event) for event in await heard(processors, piece(0, 30_000))]
    assert kinds == [SessionReady, SessionDone]  # the client notices nothing
    (first, _), (second, reopened) = processors.opened
    assert first != second
    assert reopened.resume == ResumePoint(1, 20_000, (5,), "one")
    assert processors.received[second] == [(20_000, 10_000)]


async def test_a_session_may_be_handed_over_more_often_than_processors_may_die() -> None:
    processors = HandingOver(times=8)
    kinds = [type(event) for event in await heard(processors, piece(0, 30_000))]
    assert kinds == [SessionReady, SessionDone]
    assert len(processors.opened) == 9


@pytest.mark.parametrize("after_end", [False, True])
async def test_a_session_leaves_a_processor_that_is_frozen(after_end: bool) -> None:
    """The link does not wait for its pushes or, after the end of the audio, for its answer."""
    processors = Processors()
    subject = link(processors)
    pump = asyncio.create_task(subject.pump())
    events = subject.events()
    assert isinstance(await anext(events), SessionReady)
    await subject.add(piece(0, 30_000))
    following = asyncio.ensure_future(anext(events))
    await eventually(lambda: bool(processors.received[1]), seconds=60)
    processors.frozen.add(1)
    if not after_end:
        await subject.add(piece(30_000, 10_000))  # the processor never reads it
    await eventually(lambda: len(processors.opened) == 2, seconds=60)
    if after_end:
        await subject.add(piece(30_000, 10_000))
    subject.finish(40_000)
    kinds = [type(await following), *[type(event) async for event in events]]
    await cancelled([pump])
    assert kinds == [SegmentFinal, SessionDone]
    assert processors.suspects == {1}
    samples = sum(count for _, count in processors.received[2])
    assert (min(processors.received[2])[0], samples) == (0, 40_000)


async def test_a_processor_that_answers_but_takes_no_audio_is_left() -> None:
    class Stuck(Processors):
        async def call(self, *arguments: object) -> Accepted | Alive:
            message, _, instance, _ = arguments
            if instance == 1 and isinstance(message, PushAudio):
                raise DeadlineExceeded("PushAudio took longer than 60 s")
            return await super().call(*arguments)  # type: ignore[arg-type]

    processors = Stuck()
    kinds = [type(event) for event in await heard(processors, piece(0, 30_000))]
    assert kinds == [SessionReady, SegmentFinal, SessionDone]
    assert [instance for instance, _ in processors.opened] == [1, 2]


async def test_a_client_is_not_blamed_for_processors_that_take_nothing() -> None:
    processors = Processors()
    subject = ProcessorLink(
        link(processors)._endpoints, OPENED, deadline_seconds=0.01, choose_seconds=5
    )
    await subject.add(piece(0, 41 * 16_000))
    with pytest.raises(WorkerUnavailable, match="no processor takes audio"):
        await subject.add(piece(41 * 16_000, 10))


class Parts(Processors):
    """Processors that accept a recording's part in the message that opens its session.

    The first one dies after the text of `dies_after` samples.
    """

    def __init__(self, *, dies_after: int | None = None) -> None:
        super().__init__()
        self._dies_after = dies_after
        self.called: list[object] = []

    async def stream(
        self, message: OpenSession, reply: object, instance: int
    ) -> AsyncGenerator[SessionEvent, None]:
        self.opened.append((instance, message))
        yield SessionReady(message.session, whole=message.whole is not None)
        if (cut := self._dies_after) is not None:
            self._dies_after = None
            yield SegmentFinal(0, "one", 0, 1, "English", ResumePoint(1, cut, (), "one"))
            raise WorkerUnavailable("Unavailable: killed")
        yield SegmentFinal(1, "two", 1, 2, "English", ResumePoint(2, 40_000, (), "two"))
        yield SessionDone(Usage())

    async def call(self, message: object, *arguments: object) -> Accepted | Alive:
        self.called += [] if isinstance(message, AskAlive) else [message]
        return Alive(0.0, "") if isinstance(message, AskAlive) else Accepted(0)


async def transcribed(processors: Processors, part: AudioChunk) -> list[type]:
    """The kinds of events of a recording's part."""
    pulses = Pulses(processors, processors, TIMES)  # type: ignore[arg-type]
    endpoints = ProcessorEndpoints(*[processors] * 5, pulses)  # type: ignore[arg-type]
    opened = replace(OPENED, partials=False, background=True)
    start = ResumePoint(segment_start=part.start)
    subject = ProcessorLink(endpoints, opened, deadline_seconds=60, choose_seconds=60, start=start)
    await subject.add(part)
    subject.finish(part.end)
    pump = asyncio.create_task(subject.pump())
    events = [type(event) async for event in subject.events()]
    await cancelled([pump])
    return events


PART = AudioChunk(10_000, np.arange(30_000, dtype=np.int16), "endpoint")


async def test_a_part_of_a_recording_is_one_call() -> None:
    processors = Parts()
    assert await transcribed(processors, PART) == [SessionReady, SegmentFinal, SessionDone]
    ((_, message),) = processors.opened
    assert message.whole == WholeAudio(10_000, PART.pcm.tobytes(), "endpoint", 40_000)
    assert processors.called == []


async def test_the_rest_of_a_part_goes_to_the_next_processor() -> None:
    processors = Parts(dies_after=25_000)
    assert await transcribed(processors, PART) == [
        SessionReady,
        SegmentFinal,
        SegmentFinal,
        SessionDone,
    ]
    _, (_, message) = processors.opened
    assert message.whole == WholeAudio(25_000, PART.pcm[15_000:].tobytes(), "endpoint", 40_000)
    assert processors.called == []


async def test_a_processor_that_did_not_take_the_part_is_sent_it_as_before() -> None:
    """The processor is of an earlier release."""
    processors = Processors()
    assert (await transcribed(processors, PART))[-1] is SessionDone
    assert processors.received[1] == [(10_000, 30_000)]


async def test_a_part_longer_than_one_push_is_sent_in_several() -> None:
    processors = Processors()
    long = AudioChunk(0, np.zeros(25 * 16_000, np.int16), "endpoint")
    assert (await transcribed(processors, long))[-1] is SessionDone
    ((_, message),) = processors.opened
    assert message.whole is None
    assert [count for _, count in processors.received[1]] == [160_000, 160_000, 80_000]
