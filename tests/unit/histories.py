"""Simulates whole sessions, with generated orders of messages, losses and processor failures.

The state machines of the frontend and of the processor are the real ones; the network, the
clock and the speech model are simulated. The value of a sample is the number of the word that
it belongs to, so that the model and every check know the correct transcript. A history is a
byte string; each byte chooses the next event.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from auricle.audio.segmentation import SegmentLimits
from auricle.checkpoints.geometry import Geometry
from auricle.core.errors import UnknownSession
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.link.session_line import SessionLine
from auricle.processor.session.actions import Abandon, Decode, EncodeAhead, Finish, Send
from auricle.processor.session.rules import SegmentPolicy, SessionRules
from auricle.processor.session.stability import CommitRules
from auricle.processor.session.state_machine import SessionStateMachine
from auricle.processor.session.windows import KeyScheme
from auricle.protocol.sessions import (
    Accepted,
    Boundary,
    EndAudio,
    OpenSession,
    PushAudio,
    SegmentFinal,
    SegmentPartial,
    SessionDone,
    SessionEvent,
    SessionReady,
)
from auricle.protocol.stream import Usage

WORD = 300  # samples
SHORTEST = 1_600  # samples; a shorter segment contains no word and is not decoded
LONGEST_SESSION = 60_000
MOST_LOSSES = 3  # consecutive losses of processors after which a line gives up
SAID = (np.arange(LONGEST_SESSION) // WORD + 1).astype("<i2")
GEOMETRY = Geometry(100, 800, 64, 64, 2, 1_000, 7, 512)
KEYS = KeyScheme("checkpoint", "float32", "tenant")
RULES = SessionRules(
    segments=SegmentPolicy(
        grid=800, limits=SegmentLimits(pause_after=5_000, maximum=9_000, search=4_800)
    ),
    commit=CommitRules(rollback_tokens=5, open_tokens=2, settled_samples=1_600, unfixed_decodes=2),
    max_buffered_samples=12_000,
    max_tokens_per_second=1_000,
    min_new_tokens=16,
    context_characters=40,
    min_tokens_per_second=40,  # of 53 words
)
SHORTEST_ANSWER = 7  # tokens; a shorter one may be invented and is not decoded again
NO_WORD = 999  # a wrong word that the model may generate for incomplete audio


class Words:
    """A prompt format with one token per word, whose text is <number>."""

    def head(self, _context: str) -> tuple[int, ...]:
        return ()

    def tail(self, _language: str | None) -> tuple[int, ...]:
        return ()

    def answer(self, tokens: tuple[int, ...], _language: str | None) -> tuple[str, str]:
        return "English", text(tokens)

    def opening(self, _tokens: tuple[int, ...]) -> tuple[int, ...]:
        return ()

    def whole_characters(self, _tokens: tuple[int, ...]) -> bool:
        return True


PROMPT = Words()


def text(words: tuple[int, ...]) -> str:
    return "".join(f"<{word}>" for word in words)


def spoken(start: int, end: int) -> tuple[int, ...]:
    """Return the words that lie completely within session samples [start, end)."""
    return tuple(range(-(-start // WORD) + 1, end // WORD + 1))


class Choices:
    """Makes one choice per byte; after the last byte, always the first alternative."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def below(self, count: int) -> int:
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1] % count

    @property
    def left(self) -> bool:
        return self._at < len(self._data)


@dataclass
class Processor:
    """The state of the session on one processor."""

    name: str
    session: SessionStateMachine
    events: deque[SessionEvent] = field(default_factory=deque)  # not delivered to the frontend yet
    decode: Decode | None = None
    ahead: bool = False


@dataclass
class Client:
    """A client: its speech, the events it received, and checks of the guarantees of events."""

    pieces: deque[AudioChunk]
    runs: list[tuple[int, int]]
    total: int
    segments: list[tuple[int, int]] = field(default_factory=list)
    ready: bool = False
    done: bool = False
    committed: str = ""
    before: int = 0  # session sample up to which text is final

    def on_event(self, event: SessionEvent) -> None:
        assert not self.done, "an event after the last"
        if isinstance(event, SessionReady):
            assert not self.ready, "ready twice"
            self.ready = True
            return
        assert self.ready, "an event before ready"
        if isinstance(event, SegmentPartial):
            assert event.segment == len(self.segments)
            assert event.committed.startswith(self.committed), "committed text changed"
            self.committed = event.committed
        elif isinstance(event, SegmentFinal):
            self._final(event)
        else:
            assert isinstance(event, SessionDone), event
            self.done = True

    def _final(self, event: SegmentFinal) -> None:
        assert event.segment == len(self.segments), "a segment was given twice, or left out"
        assert event.text.startswith(self.committed), "final text took something back"
        end = event.resume.segment_start
        # Times of events are rounded to milliseconds.
        start = next(
            s
            for run_start, run_end in self.runs
            if run_start <= (s := max(run_start, self.before)) < run_end
            and s - s % 16 <= event.start_ms * 16 + 16
            and event.start_ms * 16 <= s
        )
        assert event.text == text(spoken(start, end)), "words were lost, doubled or invented"
        self.segments.append((start, end))
        self.before = end
        self.committed = ""

    def check_all_heard(self) -> None:
        """Check that exactly one segment has each run of speech, unless it is too short for one."""
        left = deque(self.segments)
        for start, end in self.runs:
            at = start
            while left and left[0][0] < end:
                first, last = left.popleft()
                assert first == at and last <= end, "a segment overlaps, or leaves a gap"
                at = last
            assert end - at < SHORTEST, "speech without a segment"
        assert not left


class World:
    """One session with its client, frontend and processors, driven by a history."""

    rules = RULES

    def __init__(self, data: bytes) -> None:
        self.choices = Choices(data)
        self.client = speech(self.choices)
        partials = self.choices.below(3) < 2
        self.line = SessionLine(OpenSession("s", "t", None, "", 50, partials=partials))
        self.processor: Processor | None = None
        self.reply: tuple[PushAudio | EndAudio, Accepted] | None = None  # not delivered yet
        self.finished = False
        self.losses = 0

    def run(self) -> None:
        """Run the history, and then everything that is left to do, in order."""
        steps = (
            *(self.speak, self.push, self.accept, self.work, self.answer, self.deliver),
            *(self.flow,) * 6,
            *(self.finish, self.repeat_push, self.hand_over, self.die, self.freeze),
        )
        while self.choices.left and not self.line.over:
            step = steps[self.choices.below(len(steps))]
            step(self.processor or self.open())
        for _ in range(300):
            if self.line.over:
                break
            self.catch_up(self.processor or self.open())
        assert self.client.done, "the session never ended"
        self.client.check_all_heard()

    def flow(self, processor: Processor) -> None:
        """Send one piece of audio to the processor and deliver all resulting events."""
        self.speak(processor)
        self.push(processor)
        self.accept(processor)
        while self.work(processor):
            self.answer(processor)
        while processor.events and self.processor is processor:
            self.deliver(processor)

    def catch_up(self, processor: Processor) -> None:
        """Do all work that is pending on all sides."""
        while self.client.pieces and not self.line.full:
            self.speak(processor)
        self.finish(processor)
        self.accept(processor)
        self.flow(processor)

    # ── the client and the frontend ─────────────────────────────────────────

    def open(self) -> Processor:
        opened = self.line.open_message()
        session = SessionStateMachine(opened, self.rules, PROMPT, GEOMETRY, KEYS, None)
        self.processor = Processor(opened.session, session)
        self.reply = None
        return self.processor

    def speak(self, _processor: Processor) -> None:
        if self.client.pieces and not self.line.full:
            self.line.add(self.client.pieces.popleft())

    def finish(self, _processor: Processor) -> None:
        if not self.client.pieces and not self.finished:
            self.finished = True
            self.line.finish(self.client.total)

    def push(self, processor: Processor) -> None:
        message = None if self.reply else self.line.next_message()
        if message is None:
            return
        reply = self.take(processor, message)
        if reply is not None:
            self.reply = (message, reply)

    def accept(self, _processor: Processor) -> None:
        if self.reply is not None:
            self.line.accepted(*self.reply)
            self.reply = None

    def repeat_push(self, processor: Processor) -> None:
        """Push a message and lose the reply, so that the frontend sends it again."""
        message = None if self.reply else self.line.next_message()
        if message is not None:
            self.take(processor, message)

    def deliver(self, processor: Processor) -> None:
        if not processor.events:
            return
        event = processor.events.popleft()
        if self.line.receive(event):
            self.client.on_event(event)
            if isinstance(event, SegmentPartial | SegmentFinal):
                self.losses = 0
        if not self.line.connected and not self.line.over:
            self.processor = None  # handed over

    # ── the processor and the model ─────────────────────────────────────────

    def take(self, processor: Processor, message: PushAudio | EndAudio) -> Accepted | None:
        """Return the reply; None if the inbox is full or the session has ended there."""
        assert message.session == processor.name
        session = processor.session
        try:
            if session.over:
                raise UnknownSession(processor.name)
            if isinstance(message, EndAudio):
                session.end(message.total_samples)
            elif session.inbox.full:
                return None
            else:
                session.push(message.start_sample, message.pcm, message.boundary)
        except UnknownSession:
            return None
        return Accepted(session.inbox.received, session.wanted_samples)

    def work(self, processor: Processor) -> bool:
        """Carry out the session's next action; return whether one was pending."""
        match processor.session.next_action(1 + self.choices.below(2)):
            case Send(event):
                processor.events.append(event)
            case Finish(audio_ms):
                processor.events.append(SessionDone(Usage(audio_ms=audio_ms)))
            case Abandon():
                processor.decode = None
                processor.session.skipped()
            case Decode() as decode:
                assert processor.decode is None
                processor.decode = decode
            case EncodeAhead():
                processor.session.encoded_ahead()
            case None:
                return processor.decode is not None
        return True

    def answer(self, processor: Processor) -> None:
        """End the decode in progress, with words, with half of them, or with a refusal."""
        decode, session = processor.decode, processor.session
        if decode is None:
            return
        processor.decode = None
        if not decode.task.final and self.choices.below(8) == 7:
            session.skipped()
            return
        start, samples = session.segment.start, decode.samples
        heard = session.segment.audio.pcm(0, samples)
        assert np.array_equal(heard, SAID[start : start + samples]), "a sample lost or doubled"
        words, forced = spoken(start, start + samples), decode.task.tail
        assert words[: len(forced)] == forced, "a cut before committed words"
        following = words[len(forced) :]
        if not decode.task.final:
            following = self.unsure(following)
        elif self.choices.below(2) == 0 and self.early(words, samples, session):
            assert session.decoded(words[len(forced) : len(words) // 2]) == 0
            return
        session.decoded(following)

    def early(self, words: tuple[int, ...], samples: int, session: SessionStateMachine) -> bool:
        """Whether an answer with half of the words is noticed and can be repaired."""
        stability = session.segment.stability
        enough = len(words) // 2 >= max(len(stability.committed), SHORTEST_ANSWER)
        return (
            self.rules.min_tokens_per_second > 0
            and enough
            and stability.committed_before <= samples // 2
        )

    def unsure(self, words: tuple[int, ...]) -> tuple[int, ...]:
        """Return the words with the last one wrong or missing, or followed by a wrong one."""
        return (words, words[:-1], (*words[:-1], NO_WORD), (*words, NO_WORD))[self.choices.below(4)]

    # ── failures ────────────────────────────────────────────────────────────

    def hand_over(self, processor: Processor) -> None:
        processor.session.hand_over()

    def die(self, processor: Processor) -> None:
        """Lose the processor; some of its events may still arrive, its pending reply does not."""
        if self.losses == MOST_LOSSES:
            return
        for _ in range(self.choices.below(len(processor.events) + 1)):
            self.deliver(processor)
            if self.line.over or self.processor is None:
                return
        self.losses += 1
        assert self.line.lost() is not None
        self.processor = None

    def freeze(self, processor: Processor) -> None:
        """Push a message that a frozen processor does not answer, though it may have taken it."""
        message = None if self.reply else self.line.next_message()
        if message is None or self.losses == MOST_LOSSES:
            return
        if self.choices.below(2):
            self.take(processor, message)
        assert self.line.overdue(message)
        assert self.line.next_message() is None, "audio for a processor that is being left"
        assert not self.line.overdue(message), "left twice"
        self.losses += 1
        assert self.line.lost() is not None
        self.processor = None


def speech(choices: Choices) -> Client:
    """Return a client with runs of speech between silences, in pieces as from voice activity."""
    pieces: deque[AudioChunk] = deque()
    runs: list[tuple[int, int]] = []
    at = 0
    for _ in range(1 + choices.below(3)):
        start = at = at + 100 * choices.below(20)
        for _ in range(1 + choices.below(10)):
            count = (37, 320, 700, 1_024, 2_000)[choices.below(5)]
            boundary: Boundary = "pause" if choices.below(12) == 11 else "none"
            pieces.append(AudioChunk(at, SAID[at : at + count], boundary))
            at += count
        if choices.below(3) == 2:
            pieces.append(AudioChunk(at, SAID[at:at], "endpoint"))
        else:
            pieces[-1] = replace(pieces[-1], boundary="endpoint")
        runs.append((start, at))
    return Client(pieces, runs, at + 160 * choices.below(10))
