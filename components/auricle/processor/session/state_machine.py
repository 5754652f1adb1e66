"""The state machine of one session: events go in, actions come out. No I/O, no clock.

Inputs are `push`, `end` and `hand_over`, and the results of actions: `decoded`, `skipped`,
`encoded_ahead` and `failed`. The output is `next_action`. The order of the inputs decides
only which grid points are decoded. Not thread-safe: all calls are made on the event loop.
"""

from __future__ import annotations

from collections import deque

from auricle.audio.constants import SAMPLE_RATE, SETTLED
from auricle.audio.features import FeaturePacket
from auricle.audio.pcm import milliseconds
from auricle.audio.segmentation import SHORTEST_SEGMENT, middle_cut
from auricle.checkpoints.geometry import Geometry
from auricle.core.errors import AuricleError
from auricle.processor.session.actions import (
    Abandon,
    Action,
    Decode,
    DecodeTask,
    EncodeAhead,
    Finish,
    Send,
)
from auricle.processor.session.inbox import AudioInbox, ReceivedAudio
from auricle.processor.session.open_segment import OpenSegment
from auricle.processor.session.rules import (
    SessionPrompt,
    SessionRules,
    first_grid_point,
    next_decode,
)
from auricle.processor.session.stability import resumed, sound_tokens, stable_text
from auricle.processor.session.windows import KeyScheme
from auricle.protocol.sessions import (
    Boundary,
    Failed,
    HandedOver,
    OpenSession,
    ResumePoint,
    SegmentFinal,
    SegmentPartial,
    SessionEvent,
    SessionReady,
)

# The tokens of "Thanks for watching!" with the end, and one more.
_INVENTED_TOKENS = 6


class SessionStateMachine:
    """Owns a session's audio, segments and hypotheses until its last event was returned."""

    def __init__(
        self,
        opened: OpenSession,
        rules: SessionRules,
        prompt: SessionPrompt,
        geometry: Geometry,
        keys: KeyScheme,
        language: str | None,
    ) -> None:
        """`language` is a canonical language name; None lets the model detect the language."""
        resume = opened.resume
        self.inbox = AudioInbox(resume.segment_start, rules.max_buffered_samples)
        self.segment = OpenSegment(
            resume.segment,
            resume.segment_start,
            geometry,
            keys,
            resumed(resume.committed_tokens, resume.committed_before, rules.commit.unfixed_decodes),
        )
        # With less audio, a decode would be forced to begin with words that are not in it.
        self.segment.passed = resume.committed_before
        self._opened = opened
        self._rules = rules
        self._prompt = prompt
        self._language = language
        self._previous_text, self._previous_language = resume.context, resume.language
        # The first tokens of the last answer with text: the draft of the next segment's answer.
        self._opening: tuple[int, ...] = ()
        self._incoming: deque[ReceivedAudio] = deque()
        # Session sample at which the segment of the newest audio begins, as far as it is cut.
        self._receiving_from = resume.segment_start
        self._under_way: Decode | EncodeAhead | None = None
        self._handing_over = False
        self._over = False
        ready = SessionReady(opened.session, self.wanted_samples, opened.whole is not None)
        self._outgoing: deque[SessionEvent] = deque([ready])

    # ── inputs ──────────────────────────────────────────────────────────────

    def push(
        self,
        start_sample: int,
        pcm: bytes,
        boundary: Boundary = "none",
        features: FeaturePacket | None = None,
        arrived: float = 0.0,
    ) -> None:
        """Receive audio; repeated audio is ignored. Arguments, errors: `AudioInbox.push`."""
        between, received = self.inbox.between_segments, self.inbox.received
        self.inbox.push(start_sample, pcm, boundary, features, arrived)
        if between and self.inbox.received > received:
            self._receiving_from = max(start_sample, received)

    def end(self, total_samples: int) -> None:
        """Declare the audio complete. Raises ProtocolError as `AudioInbox.end` does."""
        self.inbox.end(total_samples)

    def hand_over(self) -> None:
        """Stop before the next decode, so that another processor continues the session.

        A session whose audio is complete is finished here instead.
        """
        self._handing_over = True

    def decoded(self, tokens: tuple[int, ...], *, whole: bool = True) -> int:
        """End the decode in progress; `tokens` follow the committed ones.

        Without `whole`, the answer met its limit. A partial answer that met its limit or repeats
        itself is dropped; of such a final the valid prefix counts. Without the rule `loop_guard`
        all tokens count. A final answer that ended early is dropped, and its segment is cut.
        Returns the number of tokens that count.
        """
        decode, segment = self._finished_decode(), self.segment
        guarded = self._rules.loop_guard
        sound = sound_tokens(tokens, whole, segment.stability) if guarded else len(tokens)
        if sound < len(tokens):
            if not decode.task.final:
                return 0
            tokens = tokens[:sound]
        if decode.task.final and self._ended_early(tokens, decode.samples):
            segment.cut = middle_cut(
                decode.samples, segment.audio.pcm, segment.stability.committed_before
            )
            if segment.cut is not None:
                return 0
        segment.stability = segment.stability.after(
            tokens,
            decode.samples,
            rules=self._rules.commit,
            ends_whole=self._prompt.whole_characters,
        )
        if decode.task.final:
            self._outgoing.append(self._end_segment(decode.samples))
        else:
            self.inbox.consumed(segment.start + decode.samples)
            self._outgoing.append(self._partial(decode.samples))
        return len(tokens)

    def _ended_early(self, tokens: tuple[int, ...], samples: int) -> bool:
        """Whether an answer has too few tokens for its audio.

        Whisper ends an answer before the end of speech that repeats itself. It also invents a few
        words for audio without speech, which shall not be repeated.
        """
        answer = len(self.segment.stability.committed) + len(tokens)
        enough = self._rules.min_tokens_per_second * samples / SAMPLE_RATE
        return _INVENTED_TOKENS < answer < enough

    def distrust_context(self) -> None:
        """Leave the client's context out of the open segment's further prompts."""
        self.segment.trusts_context = False

    def skipped(self) -> None:
        """End the partial decode in progress, which was refused or abandoned."""
        self._finished_decode()

    def encoded_ahead(self) -> None:
        """End encoding ahead, also if it failed: decodes encode the missing blocks."""
        self._under_way = None

    def failed(self, error: AuricleError) -> None:
        """End the session with `error`."""
        self._under_way = None
        self._over = True
        self._outgoing.append(Failed(error.code, str(error)))

    # ── output ──────────────────────────────────────────────────────────────

    def next_action(self, stride: int = 1) -> Action | None:
        """Return the next action, or None if there is none before the next input.

        Two partial decodes of a segment are at least `stride` grid points apart.
        """
        if self._outgoing:
            return Send(self._outgoing.popleft())
        if self._over:
            return None
        if self._under_way is not None:
            return self._abandon(self._under_way)
        if self._handing_over and self.inbox.total is None:
            self._over = True
            return Send(HandedOver(self._resume_point))
        return self._next_work(stride)

    @property
    def over(self) -> bool:
        """Whether the session has ended and `next_action` has returned its last event."""
        return self._over and not self._outgoing

    @property
    def wanted_samples(self) -> int:
        """Samples that must still arrive before there is work; a shorter push starts none.

        A pause, a segment's end or the session's end may start work at any time.
        """
        offset = 0 if self.inbox.between_segments else self.inbox.received - self._receiving_from
        return self._rules.segments.samples_until_work(offset, ahead=self._encodes_ahead)

    # ── work ────────────────────────────────────────────────────────────────

    def _next_work(self, stride: int) -> Send | Decode | EncodeAhead | Finish | None:
        while True:
            self._take_audio()
            segment, ended = self.segment, self.inbox.total is not None
            if segment.cut is not None:
                return self._decode(segment.cut, final=True)
            step = next_decode(
                segment.audio,
                segment.marks,
                self._rules.segments,
                last_offset=segment.passed,
                not_before=segment.stability.committed_before,
                stride=stride,
            )
            if step is not None and step.ends_segment:
                end = step.offset
            elif ended:
                end = segment.audio.samples
            elif step is not None and self._opened.partials:
                first = first_grid_point(segment.passed, step.offset, self._rules.segments.grid)
                segment.passed = step.offset
                return self._decode(step.offset, final=False, due=first)
            else:
                return self._encode_ahead()
            if end >= SHORTEST_SEGMENT:
                return self._decode(end, final=True)
            if segment.stability.committed:  # resumed with less audio than there is text for
                return Send(self._end_segment(end))
            self._open_next(end, number=segment.number)
            if step is None or not step.ends_segment:
                self._over = True
                return Finish(milliseconds(self.inbox.total or self.inbox.received))

    def _take_audio(self) -> None:
        """Move received audio to the open segment, up to the end of its speech."""
        while not self.segment.speech_ended:
            if not self._incoming:
                self._incoming.extend(self.inbox.take())
            if not self._incoming:
                return
            self.segment.add(self._incoming.popleft())

    def _decode(self, offset: int, *, final: bool, due: int | None = None) -> Decode:
        segment, rules = self.segment, self._rules
        committed = segment.stability.committed
        limit = int(rules.max_tokens_per_second * offset / SAMPLE_RATE)
        given = self._opened.context if segment.trusts_context else ""
        plain_head = self._prompt.head(rules.context("", self._previous_text))
        task = DecodeTask(
            head=self._prompt.head(rules.context(given, self._previous_text)),
            plain_head=plain_head if given else None,
            tail=(*self._prompt.tail(self._language), *committed),
            max_tokens=max(limit - len(committed), rules.min_new_tokens),
            final=final,
            draft=(segment.stability.tokens or self._opening)[len(committed) :],
        )
        self._under_way = Decode(
            samples=offset,
            task=task,
            segment=segment.number,
            audio_ms=milliseconds(segment.start + offset),
            arrived=segment.arrived(offset),
            due=segment.arrived(offset if due is None else due),
        )
        return self._under_way

    @property
    def _encodes_ahead(self) -> bool:
        """Whether decodes are more than 1 s apart, so that audio is encoded between them."""
        return self._rules.segments.grid > SAMPLE_RATE and self._opened.partials

    def _encode_ahead(self) -> EncodeAhead | None:
        finished = self.segment.audio.samples - SETTLED
        if not self._encodes_ahead or finished // SAMPLE_RATE <= self.segment.ahead // SAMPLE_RATE:
            return None
        self.segment.ahead = finished
        self._under_way = EncodeAhead()
        return self._under_way

    def _abandon(self, work: Decode | EncodeAhead) -> Abandon | None:
        """Return what makes way for the segment's final; None if the final is not due yet."""
        pause = self.inbox.paused_at - self.segment.start
        ended = self.inbox.segment_ended or pause >= self._rules.segments.limits.pause_after
        if not ended or (isinstance(work, Decode) and work.task.final):
            return None
        return Abandon(work)

    def _finished_decode(self) -> Decode:
        decode = self._under_way
        if not isinstance(decode, Decode):
            raise AssertionError("no decode is in progress")
        self._under_way = None
        return decode

    # ── segments and events ─────────────────────────────────────────────────

    def _open_next(self, offset: int, *, number: int) -> None:
        """End the open segment after `offset` samples and open segment `number`."""
        self.segment = self.segment.after(offset, number=number)
        self._receiving_from = max(self._receiving_from, self.segment.start)
        self.inbox.consumed(self.segment.start)

    @property
    def _resume_point(self) -> ResumePoint:
        return self.segment.resume_point(self._previous_text, self._previous_language)

    def _partial(self, offset: int) -> SegmentPartial:
        segment = self.segment
        _, committed = self._prompt.answer(segment.stability.committed, self._language)
        language, text = self._prompt.answer(segment.stability.tokens, self._language)
        rules = self._rules
        early = rules.commit.early(segment.stability.decodes)
        text = stable_text(text, committed, rules.held_words, language, early=early)
        return SegmentPartial(
            segment=segment.number,
            committed=committed,
            partial=text.removeprefix(committed),
            audio_ms=milliseconds(segment.start + offset),
            language=language,
            resume=self._resume_point,
        )

    def _end_segment(self, offset: int) -> SegmentFinal:
        ended = self.segment
        language, text = self._prompt.answer(ended.stability.tokens, self._language)
        if text:
            self._previous_text, self._previous_language = text, language
            self._opening = self._prompt.opening(ended.stability.tokens)
        self._open_next(offset, number=ended.number + 1)
        return SegmentFinal(
            segment=ended.number,
            text=text,
            start_ms=milliseconds(ended.start),
            end_ms=milliseconds(ended.start + offset),
            language=language,
            resume=self._resume_point,
        )
