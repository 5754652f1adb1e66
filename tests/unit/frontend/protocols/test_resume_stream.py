"""The frontend's session, cut after any of its messages: the client gets the others once each."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from auricle.config.settings import FrontendSettings
from auricle.core.errors import AuricleError, UnsupportedValue
from auricle.dynamo import Tokens
from auricle.frontend.exporters.transcripts import (
    NoBus,
    TranscriptBus,
    TranscriptListener,
    TranscriptMessage,
    TranscriptSource,
)
from auricle.frontend.frontend import Frontend
from auricle.frontend.link.processor_link import LinkObserver, ProcessorEndpoints
from auricle.frontend.metrics import FrontendMetrics
from auricle.frontend.protocols.stream.resume import PURPOSE, ResumeTokens
from auricle.frontend.protocols.stream.session import StreamProtocol
from auricle.frontend.transport.access.keys import ANYONE
from auricle.frontend.transport.disconnect import ClientDisconnected
from auricle_testing.fakes import InstantDetector, Processor, SteadyPulses, admission
from tests.fakes.place import HeldPlace
from tests.fakes.virtual_time import run

pytestmark = pytest.mark.unit
RATE = 16_000
PACKET = 3_200
Event = dict[str, Any]


def bursts(*seconds: float) -> np.ndarray:
    """Alternating speech and silence of these durations."""
    parts = [
        (8_000 if turn % 2 == 0 else 0) * np.sin(np.arange(int(length * RATE)))
        for turn, length in enumerate(seconds)
    ]
    return np.concatenate(parts).astype("<i2")


# With a pause, two ends of speech, and a silence after which the client may discard its audio.
PCM = bursts(2.1, 0.3, 1.0, 1.5, 2.0, 25.0, 1.3, 1.0)


class Client(HeldPlace):
    """A connection's client: sends `start` and audio, and is disconnected after `most` messages."""

    trace = ""

    def __init__(
        self,
        name: str,
        start: Event,
        pcm: np.ndarray,
        most: int | None = None,
        *,
        ends: bool = True,
    ) -> None:
        """Without `ends` it stays connected after its last packet, and sends nothing more."""
        super().__init__()
        self.session = name
        self.client = SimpleNamespace(key=ANYONE, tenant="default")
        self.resumes = "resume" in start
        packets = [pcm[at : at + PACKET].tobytes() for at in range(0, len(pcm), PACKET)]
        self._messages: list[tuple[str | None, bytes]] = [
            (json.dumps(start), b""),
            *((None, packet) for packet in packets),
            *([('{"type": "end"}', b"")] if ends else []),
        ]
        self._most = most
        self._cut = asyncio.Event()
        self.has_final = asyncio.Event()
        self.events: list[Event] = []
        self.charged = 0.0

    async def receive(
        self, _seconds: float, _what: str, _enough: int = 0
    ) -> tuple[str | None, bytes]:
        for _ in range(20):  # all messages in flight arrive
            await asyncio.sleep(0)
        if not self._messages:
            await self._cut.wait()
        if self._cut.is_set():
            raise ClientDisconnected
        return self._messages.pop(0)

    async def charge(self, seconds: float) -> None:
        self.charged += seconds

    async def read_up(self) -> None:
        await self._cut.wait()
        raise ClientDisconnected

    def end_early(self, samples: int) -> None:
        self.went_at = samples

    async def send(self, text: str) -> None:
        if self._most is not None and len(self.events) >= self._most:
            self._cut.set()
            raise ClientDisconnected
        self.events.append(json.loads(text))
        if self.events[-1]["type"] == "final":
            self.has_final.set()


class Bus(NoBus):
    """Keeps the published messages."""

    def __init__(self) -> None:
        self.messages: list[TranscriptMessage] = []

    def listener(self, spoken: TranscriptSource) -> LinkObserver:
        return TranscriptListener(spoken, self.messages.append)

    def finals(self) -> set[tuple[str, str, int, str]]:
        """The final texts as NATS stores them, which drops messages with a known identity."""
        return {(m.session, m.part, m.segment, m.text) for m in self.messages if m.type == "final"}


class House:
    """A frontend, and others of its deployment."""

    def __init__(
        self, seconds: float = 120.0, bus: TranscriptBus | None = None, turns: bool = True
    ) -> None:
        self._bus = bus or NoBus()
        self._turns = cast(Any, SimpleNamespace(probability=probable)) if turns else None
        self.settings = FrontendSettings()
        self._processor = cast(Any, Processor())
        self._tokens = Tokens(None, PURPOSE)
        self._seconds = seconds
        self._connections = 0

    async def connection(
        self, start: Event, pcm: np.ndarray, most: int | None = None, draining: bool = False
    ) -> Client:
        """Serve one connection on a frontend without any state of the other connections."""
        client = Client(self.name(), start, pcm, most)
        async with asyncio.timeout(60):
            try:
                await self.frontend(draining=draining).serve(cast(Any, client))
            except ClientDisconnected:
                assert most is not None
        return client

    def name(self) -> str:
        """Name of the next connection."""
        self._connections += 1
        return f"sess_{self._connections}"

    def frontend(self, *, draining: bool = False) -> StreamProtocol:
        frontend = Frontend(
            self.settings,
            ("demo",),
            ProcessorEndpoints(*[self._processor] * 5, cast(Any, SteadyPulses())),
            admission(draining=draining),
            InstantDetector(),
            self._bus,
            FrontendMetrics(CollectorRegistry(), self.settings),
            turns=self._turns,
        )
        return StreamProtocol(frontend, ResumeTokens(self._tokens, self._seconds, "demo"))


START: Event = {"type": "start", "sample_rate": RATE}
BY_TURNS: Event = {**START, "endpointing": {"eagerness": "high"}}


async def probable(client: str, pcm: np.ndarray) -> float:
    """A turn model whose probability depends on each sample."""
    return int(np.abs(pcm.astype(np.int64)).sum()) % 30 / 100


def once(events: list[Event]) -> list[tuple[Any, ...]]:
    """The events' properties that must be the same for any cuts of a session."""
    marks = [(e["type"], e["at_ms"]) for e in events if e["type"].startswith(("speech_", "turn_"))]
    finals = [("final", e["segment"]) for e in events if e["type"] == "final"]
    return marks + finals


def at(resume: Event) -> np.ndarray:
    return PCM[resume["from_sample"] :]


@pytest.mark.parametrize(
    ("start", "marks"),
    [
        (START, {"speech_started", "speech_stopped"}),
        (BY_TURNS, {"speech_started", "speech_stopped", "turn_paused", "turn_resumed"}),
    ],
    ids=["silence", "turns"],
)
async def test_cut_after_any_message_everything_else_follows_once(
    start: Event, marks: set[str]
) -> None:
    house = House()
    undisturbed = (await house.connection(start, PCM)).events
    kinds = [e["type"] for e in undisturbed]
    assert {*marks, "partial", "final", "checkpoint"} <= set(kinds)
    for most in range(1, len(undisturbed)):
        before = await house.connection(start, PCM, most)
        assert len(before.events) == most
        resume = before.events[-1]["resume"]
        after = await house.connection(start | {"resume": resume}, at(resume))
        assert once(before.events + after.events) == once(undisturbed), most
        assert after.events[0]["session"] == before.events[0]["session"]
        assert after.events[-1]["type"] == "done"
        decoded = [
            (e["segment"], e["audio_ms"])
            for e in before.events + after.events
            if e["type"] == "partial"
        ]
        assert decoded == sorted(set(decoded))


class StallingClient(Client):
    """Sends nothing for 9 s at the session samples `stalls`; `sent` counts all up to now."""

    def __init__(
        self, name: str, start: Event, begin: int, most: int | None, stalls: list[int]
    ) -> None:
        super().__init__(name, start, STALLED[:0], most)
        ends = [at for at in range(PACKET, len(STALLED) + 1, PACKET) if at > begin]
        cuts = pairwise([begin, *ends])
        self._messages[1:1] = [(None, STALLED[at:end].tobytes()) for at, end in cuts]
        self.sent, self._stalls = begin, stalls

    async def receive(self, *arguments: Any) -> tuple[str | None, bytes]:
        if self.sent in self._stalls:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._cut.wait(), 9.0)
        text, data = await super().receive(*arguments)
        self.sent += len(data) // 2
        return text, data


# Speech without any pause in it.
STALLED = bursts(5.0)
STALLS = [5 * PACKET, 12 * PACKET, 13 * PACKET, 20 * PACKET]


@pytest.mark.parametrize("start", [START, BY_TURNS], ids=["silence", "turns"])
def test_cut_among_stalls_everything_else_follows_once(start: Event) -> None:
    """Connected again, the client sends its audio without the stalls that it had before."""

    async def connected(
        house: House, start: Event, begin: int, most: int | None, stalls: list[int]
    ) -> StallingClient:
        client = StallingClient(house.name(), start, begin, most, stalls)
        with suppress(ClientDisconnected):
            await house.frontend().serve(cast(Any, client))
        return client

    def ends(events: list[Event]) -> list[int]:
        return [e["at_ms"] * 16 for e in events if e["type"] == "speech_stopped"]

    async def tested() -> None:
        house = House()
        undisturbed = (await connected(house, start, 0, None, STALLS)).events
        assert ends(undisturbed) == [*STALLS, len(STALLED)]
        for most in range(1, len(undisturbed)):
            before = await connected(house, start, 0, most, STALLS)
            resume = before.events[-1]["resume"]
            begin, told = resume["from_sample"], ends(before.events)
            left = [at for at in STALLS if at >= before.sent and at not in told]
            after = await connected(house, start | {"resume": resume}, begin, None, left)
            assert once(before.events + after.events) == once(undisturbed), most
            assert after.events[-1]["type"] == "done"

    run(tested())


async def test_turns_are_refused_where_there_is_no_model_to_find_them() -> None:
    house = House(turns=False)
    with pytest.raises(UnsupportedValue, match=r"Frontend\.turn_model") as refused:
        await house.connection(BY_TURNS, PCM)
    assert refused.value.param == "endpointing.eagerness"


async def test_a_number_of_speakers_needs_speakers() -> None:
    with pytest.raises(UnsupportedValue, match="max_speakers needs diarize: true"):
        await House().connection(START | {"max_speakers": 2}, PCM)


async def test_cut_after_every_message_it_still_comes_to_its_end() -> None:
    house = House()
    undisturbed = (await house.connection(START, PCM)).events
    events: list[Event] = []
    resume, position = None, 0
    while not events or events[-1]["type"] != "done":
        start = START if resume is None else START | {"resume": resume}
        # Receive `ready` and one more message.
        events += (await house.connection(start, PCM[position:], 2)).events
        if "resume" in events[-1]:
            resume, position = events[-1]["resume"], events[-1]["resume"]["from_sample"]
        assert len(events) < 500
    assert once(events) == once(undisturbed)


async def test_the_bus_has_each_final_once_however_the_session_was_cut() -> None:
    """Both frontends publish, identically, the finals that the client did not receive any more."""
    whole = Bus()
    undisturbed = (await House(bus=whole).connection(START, PCM)).events
    assert len(whole.finals()) > 1
    for most in range(1, len(undisturbed)):
        house = House(bus=(bus := Bus()))
        before = await house.connection(START, PCM, most)
        resume = before.events[-1]["resume"]
        await house.connection(START | {"resume": resume}, at(resume))
        assert bus.finals() == whole.finals(), most


async def test_what_is_sent_again_is_not_charged_again() -> None:
    house = House()
    for most in (3, 6, 9):
        before = await house.connection(START, PCM, most)
        resume = before.events[-1]["resume"]
        after = await house.connection(START | {"resume": resume}, at(resume))
        # The audio after the last message has been charged but is missing in the token.
        total = before.charged + after.charged
        assert len(PCM) / RATE <= total + 1e-6
        assert total <= len(PCM) / RATE + 1.0


async def test_a_frontend_that_leaves_gives_a_token_too() -> None:
    house = House()
    left = await house.connection(START, PCM, draining=True)
    assert left.events[-1]["type"] == "going_away"
    resume = left.events[-1]["resume"]
    after = await house.connection(START | {"resume": resume}, at(resume))
    undisturbed = await house.connection(START, PCM)
    assert once(left.events + after.events) == once(undisturbed.events)


async def test_without_resuming_there_is_neither_token_nor_checkpoint() -> None:
    events = (await House(seconds=0).connection(START, PCM)).events
    assert not any("resume" in event for event in events)
    assert "checkpoint" not in [e["type"] for e in events]


async def test_another_frontend_may_have_other_defaults() -> None:
    """Endpointing and cadence keep their values from the session's start."""
    house = House()
    undisturbed = (await house.connection(START, PCM)).events
    before = await house.connection(START, PCM, 4)
    house.settings = FrontendSettings(min_silence_ms=5_000, default_chunk_ms=2_000)
    resume = before.events[-1]["resume"]
    after = await house.connection(START | {"resume": resume}, at(resume))
    assert once(before.events + after.events) == once(undisturbed)
    assert after.events[0]["chunk_ms"] == 640


async def test_a_newer_connection_takes_the_session_over() -> None:
    """The client lost the older connection; the frontend has not noticed yet."""
    house = House()
    undisturbed = (await house.connection(START, PCM)).events
    frontend = house.frontend()
    older = Client(house.name(), START, PCM[: 4 * RATE], ends=False)
    serving = asyncio.create_task(frontend.serve(cast(Any, older)))
    async with asyncio.timeout(60):
        await older.has_final.wait()
        resume = older.events[-1]["resume"]
        newer = Client(house.name(), START | {"resume": resume}, at(resume))
        told = len(older.events)
        await frontend.serve(cast(Any, newer))
        with pytest.raises(AuricleError) as ended:
            await serving
    assert ended.value.code == "resume_taken_over"
    assert once(older.events[:told] + newer.events) == once(undisturbed)


async def test_sessions_of_others_are_not_taken_over() -> None:
    house = House()
    frontend = house.frontend()
    clients = [Client(house.name(), START, PCM) for _ in range(2)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(frontend.serve(cast(Any, client)) for client in clients))
    assert [client.events[-1]["type"] for client in clients] == ["done", "done"]


async def test_a_token_of_other_options_is_refused() -> None:
    house = House()
    resume = (await house.connection(START, PCM, 3)).events[-1]["resume"]
    with pytest.raises(AuricleError) as refused:
        await house.connection(START | {"resume": resume, "partials": False}, at(resume))
    assert refused.value.code == "resume_other_options"
