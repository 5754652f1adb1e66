"""A session whose connection is cut repeatedly, at any point, delivers each event once.

The endpointer, the delivery tracker, the processor link and the processor's session are the real
ones; the network and the speech model are simulated, as in `histories`. Messages in flight at a cut
are lost.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.audio.segmentation import SegmentLimits
from auricle.audio.voice_activity import VAD_FRAME
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.audio.resume_state import AudioCheckpoint
from auricle.frontend.link.session_line import SessionLine
from auricle.frontend.protocols.stream import resume as resume_module
from auricle.frontend.protocols.stream.resume import NOTHING_SENT, DeliveryTracker, SentState
from auricle.frontend.protocols.stream.start import Beginning
from auricle.processor.session.rules import SegmentPolicy
from auricle.processor.session.state_machine import SessionStateMachine
from auricle.protocol.sessions import (
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionReady,
)
from tests.unit.histories import (
    GEOMETRY,
    KEYS,
    PROMPT,
    RULES,
    SAID,
    SHORTEST,
    Choices,
    Processor,
    World,
)

pytestmark = pytest.mark.unit
OPTIONS = EndpointingOptions(threshold=0.5, min_silence_ms=160, pre_roll_ms=64)
FRAMES = len(SAID) // VAD_FRAME
# The earlier decodes determine where a segment is cut at its maximum length. Nothing else depends
# on them, so these rules have no such cuts, and answers do not end early.
UNCUT = replace(
    RULES,
    segments=SegmentPolicy(
        grid=800, limits=SegmentLimits(pause_after=5_000, maximum=90_000, search=4_800)
    ),
    max_buffered_samples=90_000,
    min_tokens_per_second=0,
)
LOUD = st.lists(
    st.tuples(st.sampled_from([0.0, 0.9]), st.integers(1, 20)), min_size=1, max_size=12
).map(lambda runs: [value for value, frames in runs for _ in range(frames)][:FRAMES])


# Long histories: errors appear after several cuts, late in a session.
HISTORY = st.integers(0, 2**32).map(lambda seed: random.Random(seed).randbytes(seed % 600))


@pytest.fixture(autouse=True, scope="module")
def in_short() -> Any:
    """Sessions here last four seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume_module, "_CHECKPOINT_INTERVAL", 700)
        patch.setattr(resume_module, "_CHECKPOINT_DUE", 5_000)
        yield


@dataclass
class Listener:
    """A client: its part of the session, and the audio that it must have kept."""

    sent: SentState = NOTHING_SENT
    marks: list[tuple[str, int]] = field(default_factory=list)
    finals: list[tuple[int, str, int, int]] = field(default_factory=list)
    committed: str = ""
    decoded_ms: int = -1
    done: bool = False
    unheard_of: int = 0  # samples since the last message with a position from which to keep audio

    def hears(self, message: Any, told: SentState) -> None:
        assert told.listening.sample >= self.sent.listening.sample, "audio was forgotten already"
        self.sent = told
        if isinstance(message, tuple):
            self.marks.append(message)
        elif isinstance(message, SegmentPartial):
            assert message.segment == len(self.finals)
            assert message.committed.startswith(self.committed), "committed text changed"
            assert message.audio_ms > self.decoded_ms, "a partial was repeated"
            self.committed, self.decoded_ms = message.committed, message.audio_ms
        elif isinstance(message, SegmentFinal):
            assert message.segment == len(self.finals), "a final was doubled or left out"
            assert message.text.startswith(self.committed), "final text took something back"
            self.finals.append((message.segment, message.text, message.start_ms, message.end_ms))
            self.committed, self.decoded_ms = "", -1
        elif isinstance(message, SessionDone):
            self.done = True


class Connection(World):
    """One connection of the client, to a frontend that has only the client's token."""

    def __init__(self, client: Listener, loud: list[float], choices: Choices, rules: Any) -> None:
        told = client.sent
        self.choices, self.client, self.loud, self.rules = choices, client, loud, rules
        self.gate = Endpointer(OPTIONS, told.listening.sample, told.listening.gate)
        self.at = told.listening.sample
        self.decided = self.at if told.listening.gate is None else told.listening.gate.decided
        self.delivery = DeliveryTracker(told)
        opened = OpenSession("s", "t", None, "", 50, resume=told.point)
        self.line = SessionLine(opened)
        self.text_from = told.point.segment_start
        self.processor: Processor | None = None
        self.reply = None
        self.finished = False
        self.on_the_way: deque[tuple[Any, SentState]] = deque()

    def open(self) -> Processor:
        opened = self.line.open_message()
        session = SessionStateMachine(opened, self.rules, PROMPT, GEOMETRY, KEYS, None)
        self.processor = Processor(opened.session, session)
        self.reply = None
        return self.processor

    def run_until_cut(self) -> None:
        """Run until the history cuts the connection or ends."""
        steps = (
            *(self.listen, self.push, self.accept, self.work, self.answer, self.deliver),
            *(self.flow,) * 8,
            *(self.finish, self.arrive, self.arrive, self.hand_over),
        )
        while self.choices.left and not self.client.done:
            which = self.choices.below(len(steps) + 1)
            if which == len(steps):
                return
            steps[which](self.processor or self.open())

    def run_to_the_end(self) -> None:
        for _ in range(600):
            if self.client.done:
                return
            processor = self.processor or self.open()
            self.listen(processor)
            self.finish(processor)
            self.accept(processor)
            self.flow(processor)
            while self.on_the_way:
                self.arrive(processor)
        raise AssertionError("the session never ended")

    def speak(self, processor: Processor) -> None:
        self.listen(processor)

    def listen(self, _processor: Processor) -> None:
        """Take the client's next packet."""
        total = len(self.loud) * VAD_FRAME
        if self.at == total or self.line.full:
            return
        begin, self.at = self.at, min(total, self.at + (400, 1_024, 3_000)[self.choices.below(3)])
        frames = range(self.decided // VAD_FRAME, self.at // VAD_FRAME)
        self.decided = max(self.decided, self.at // VAD_FRAME * VAD_FRAME)
        pcm = SAID[begin : self.at]
        self.hand_over_to_line(self.gate.push(pcm, [self.loud[frame] for frame in frames]))
        self.delivery.received_audio(self.at, self.point)
        if self.delivery.checkpoint_due:
            self.send(None)

    def point(self) -> AudioCheckpoint:
        at = self.gate.kept_from
        return AudioCheckpoint(at, self.gate.passed, at, self.gate.state)

    def finish(self, _processor: Processor) -> None:
        if self.at == len(self.loud) * VAD_FRAME and not self.finished:
            self.finished = True
            self.hand_over_to_line(self.gate.finish([]))
            self.line.finish(self.at)

    def hand_over_to_line(self, events: list[AudioEvent]) -> None:
        for event in events:
            if isinstance(event, AudioChunk):
                piece = Beginning.without_text(self, event)  # type: ignore[arg-type]
                if piece is not None:
                    self.line.add(piece)
            elif self.delivery.found_mark():
                self.delivery.sent_mark()
                self.send((type(event).__name__, event.at))

    def deliver(self, processor: Processor) -> None:
        if not processor.events:
            return
        event = processor.events.popleft()
        if self.line.receive(event):
            if isinstance(event, SegmentPartial | SegmentFinal):
                if self.delivery.is_new(event):
                    self.delivery.sent_text(event)
                    self.send(event)
            elif isinstance(event, SessionReady | SessionDone):
                self.send(event)
        if not self.line.connected and not self.line.over:
            self.processor = None  # handed over

    def send(self, message: Any) -> None:
        self.on_the_way.append((message, self.delivery.state()))

    def arrive(self, _processor: Processor) -> None:
        if self.on_the_way:
            self.client.hears(*self.on_the_way.popleft())


def heard(loud: list[float], history: bytes, rules: Any) -> tuple[Listener, int]:
    client, choices, connections = Listener(), Choices(history), 0
    while choices.left and not client.done:
        Connection(client, loud, choices, rules).run_until_cut()
        connections += 1
    Connection(client, loud, choices, rules).run_to_the_end()
    return client, connections


@settings(max_examples=200)
@given(LOUD, HISTORY)
def test_a_session_cut_anywhere_has_the_events_of_one_that_was_not(
    loud: list[float], history: bytes
) -> None:
    undisturbed, _ = heard(loud, b"", UNCUT)
    found, _ = heard(loud, history, UNCUT)
    assert found.marks == undisturbed.marks
    assert found.finals == undisturbed.finals


@settings(max_examples=150)
@given(LOUD, HISTORY)
def test_no_word_is_lost_or_doubled_where_segments_are_cut_at_their_maximum(
    loud: list[float], history: bytes
) -> None:
    """The simulated model checks every final: its input must be the samples of the segment."""
    undisturbed, _ = heard(loud, b"", RULES)
    found, _ = heard(loud, history, RULES)
    assert found.marks == undisturbed.marks
    for before, after in zip(found.finals, found.finals[1:], strict=False):
        assert before[3] <= after[2]
    # After a cut, the rest of the last segment is not decoded if it is shorter than a word.
    assert bool(found.finals) == bool(undisturbed.finals)
    if found.finals:
        assert abs(found.finals[-1][3] - undisturbed.finals[-1][3]) <= SHORTEST // 16


def test_histories_do_cut() -> None:
    loud = [0.9] * 30 + [0.0] * 20 + [0.9] * 30
    _, connections = heard(loud, bytes([6, 6, 6, 16, 16, 18] * 20), UNCUT)
    assert connections > 5


def silence(delivery: DeliveryTracker, until: int) -> None:
    for at in range(700, until, 700):
        delivery.received_audio(at, lambda at=at: AudioCheckpoint(at, 0, at))


def test_a_client_forgets_silence_as_it_goes_by() -> None:
    delivery = DeliveryTracker()
    silence(delivery, 100_000)
    assert delivery.state().listening.sample > 99_000


def test_a_client_is_told_at_times_though_there_is_no_news() -> None:
    delivery = DeliveryTracker()
    delivery.received_audio(4_999, AudioCheckpoint)
    assert not delivery.checkpoint_due
    delivery.received_audio(5_000, AudioCheckpoint)
    assert delivery.checkpoint_due
    delivery.state()
    assert not delivery.checkpoint_due


def test_what_was_heard_on_another_connection_is_not_new() -> None:
    delivery = DeliveryTracker(
        SentState(listening=AudioCheckpoint(1_000, 0, 1_000), received=3_000)
    )
    assert delivery.received_audio(2_500, lambda: None) == 0
    assert delivery.received_audio(4_000, lambda: None) == 1_000
    assert delivery.received_audio(4_500, lambda: None) == 500


def test_a_segment_of_any_length_has_a_bounded_number_of_points() -> None:
    delivery = DeliveryTracker()
    for at in range(700, 3_000_000, 700):
        delivery.received_audio(at, lambda at=at: AudioCheckpoint(at, at, at))
    assert len(delivery._points) <= 512
    assert delivery.state().listening == AudioCheckpoint()
    resume = ResumePoint(segment=1, segment_start=1_500_000)
    delivery.sent_text(SegmentFinal(0, "", 0, 93_750, "English", resume))
    assert 1_400_000 <= delivery.state().listening.sample <= 1_500_000
