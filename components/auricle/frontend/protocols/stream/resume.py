"""Resume tokens: a session's state in its client's hands, for any frontend of the deployment.

A token is base64url without padding: a version byte, 8 bytes each of the client's and the options'
digests, which give the reason of a refusal, and the state sealed by `dynamo.Tokens`, bound to the
whole digests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.core.limits import CONTEXT, RESUME_TOKEN
from auricle.dynamo import Tokens
from auricle.frontend.audio.endpointing import EndpointingOptions
from auricle.frontend.audio.resume_state import AudioCheckpoint, Stall, client_sample
from auricle.frontend.link.session_line import SentTranslations
from auricle.frontend.protocols.stream.messages import Start
from auricle.frontend.protocols.stream.refusals import (
    ResumeExpired,
    ResumeForged,
    ResumeMalformed,
    ResumeOtherClient,
    ResumeOtherOptions,
    ResumePosition,
)
from auricle.frontend.transport.access.keys import ApiKey
from auricle.protocol.annotation import SegmentSpeakers, SegmentTranslation
from auricle.protocol.sessions import ResumePoint, SegmentFinal, SegmentPartial
from auricle.protocol.stream import Resume

# The messages that one client has received, and the state from which its session can continue.
# No I/O, no clock.
#
# After any message, another frontend can continue from `state`: the client receives everything
# else, and nothing twice. Results that were not sent yet are found again.

# The distance between checkpoints: more of them would cost memory, fewer make clients send more
# audio again. Above the maximum number (the segment is that long), every second one is dropped.
_CHECKPOINT_INTERVAL = SAMPLE_RATE
_MOST_CHECKPOINTS = 512
_MOST_STALLS = 64  # of clients that stop often without getting text in between
# The longest audio without a message that updates the position from which the client keeps audio.
_CHECKPOINT_DUE = 10 * SAMPLE_RATE


class SentState(msgspec.Struct, frozen=True, array_like=True):
    """The state of a session after a message to its client.

    `point` is the processor's, after the last text sent; `sent_ms` is that text's `audio_ms`, or -1
    if its segment is final. `marks` is the number of starts and stops of speech sent, including
    `marks_before` ahead of `listening`. `received` are the 16 kHz samples that the client had sent,
    and that were charged, as `AudioCheckpoint.received` counts them. At `stalls`, after
    `listening`, it sent nothing for a time, which ended speech or a turn.
    """

    point: ResumePoint = ResumePoint()
    sent_ms: int = -1
    listening: AudioCheckpoint = AudioCheckpoint()
    marks_before: int = 0
    marks: int = 0
    received: int = 0
    stalls: tuple[Stall, ...] = ()


NOTHING_SENT = SentState()


class DeliveryTracker:
    """Records the messages to one client, in their order. Not thread-safe."""

    def __init__(self, begun: SentState = NOTHING_SENT, translate: Sequence[str] = ()) -> None:
        """The session continues after `begun`, and is translated into the languages `translate`."""
        self._translations = SentTranslations(translate, begun.point.translations)
        self._point = begun.point
        self._sent_ms = begun.sent_ms
        self._received = begun.received
        self._marks = begun.marks
        self._found = begun.marks_before  # starts and stops found, sent or not
        # Checkpoints with the number of marks found before each, and stalls, in their order.
        self._points: list[tuple[AudioCheckpoint, int] | Stall] = [
            (begun.listening, begun.marks_before),
            *begun.stalls,
        ]
        self._checkpoint_at = begun.listening.received
        self._stated_at = begun.received

    def received_audio(
        self,
        received: int,
        checkpoint: Callable[[], AudioCheckpoint | None],
        *,
        ended: bool = False,
    ) -> int:
        """The client has sent `received` samples; `checkpoint()` returns a checkpoint, or None.

        `ended`: the last checkpoint, which is kept however near the previous one. Returns the
        number of new samples, which were not sent on an earlier connection.
        """
        new = max(0, received - self._received)
        self._received += new
        far = received - self._checkpoint_at >= _CHECKPOINT_INTERVAL
        if (ended or far) and (found := checkpoint()) is not None:
            self._checkpoint_at = received
            self._add((found, self._found), received)
            self._forget()
            if len(self._points) > _MOST_CHECKPOINTS:
                self._points = [
                    point
                    for at, point in enumerate(self._points)
                    if at % 2 == 0 or isinstance(point, Stall)
                ]
        return new

    def stalled(self, stall: Stall) -> None:
        """The client has sent nothing for a time, or for longer than when this was called last."""
        at = self._add(stall, stall.at)
        before = self._points[at - 1]
        if isinstance(before, Stall) and before.at == stall.at:
            self._points[at - 1] = Stall(stall.at, max(before.samples, stall.samples))
            del self._points[at]

    @property
    def full_of_stalls(self) -> bool:
        """Whether a token has no room for another stall."""
        return sum(isinstance(point, Stall) for point in self._points) >= _MOST_STALLS

    def _add(self, point: tuple[AudioCheckpoint, int] | Stall, received: int) -> int:
        """Add a point at which the client had sent `received`; return its place.

        It comes before stalls of an earlier connection up to which the client has not sent its
        audio again.
        """
        at = len(self._points)
        while isinstance(later := self._points[at - 1], Stall) and later.at > received:
            at -= 1
        self._points.insert(at, point)
        return at

    def found_mark(self) -> bool:
        """Speech has started or stopped; return whether the client has not received this mark."""
        self._found += 1
        return self._found > self._marks

    def sent_mark(self) -> None:
        """The client receives the next start or stop of speech."""
        self._marks += 1

    def is_new(self, event: SegmentPartial | SegmentFinal) -> bool:
        """Whether the client has not received this text, or more, already."""
        if event.segment != self._point.segment:
            return event.segment > self._point.segment
        return isinstance(event, SegmentFinal) or event.audio_ms > self._sent_ms

    def sent_text(self, event: SegmentPartial | SegmentFinal) -> None:
        self._point = event.resume
        self._sent_ms = event.audio_ms if isinstance(event, SegmentPartial) else -1
        if isinstance(event, SegmentFinal):
            self._translations.final(event)
        self._forget()

    def sent_speakers(self, event: SegmentSpeakers) -> None:
        """The client receives a segment's speakers; their state is part of the resume point."""
        self._point = replace(self._point, speakers=event.state)

    def sent_translation(self, event: SegmentTranslation) -> None:
        self._translations.translation(event)

    @property
    def checkpoint_due(self) -> bool:
        """Whether the client needs a message with a new position, from which it keeps audio."""
        return self._received - self._stated_at >= _CHECKPOINT_DUE

    def state(self) -> SentState:
        """Return the state after the message that is being made."""
        (listening, before), stalls = self._first, [p for p in self._points if isinstance(p, Stall)]
        self._stated_at = self._received
        # Processors use less of the previous text.
        context, translations = self._point.context[-CONTEXT:], self._translations.state()
        return SentState(
            replace(self._point, context=context, translations=translations),
            *(self._sent_ms, listening, before, self._marks, self._received, tuple(stalls)),
        )

    @property
    def _first(self) -> tuple[AudioCheckpoint, int]:
        first = self._points[0]
        if isinstance(first, Stall):
            raise AssertionError("a stall without a checkpoint before it")
        return first

    def _forget(self) -> None:
        """Drop checkpoints before the last one from which everything unsent is found again."""
        usable = 0
        for at, point in enumerate(self._points[1:], 1):
            if isinstance(point, Stall):
                continue
            if point[0].passed > self._point.segment_start:
                break
            usable = at
        del self._points[:usable]


PURPOSE = "auricle resume tokens 1"
_VERSION = b"\x01"
_HINT_BYTES = 8
_HEAD = 1 + 2 * _HINT_BYTES


class ResumeState(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token: the state that a frontend cannot rebuild from `start` and audio.

    `expires` is Unix time. `session` is the client's name for the session. `endpointing` and
    `chunk_ms` are in effect since the session began, whatever other frontends' defaults are.
    """

    expires: float
    session: str
    chunk_ms: int
    endpointing: EndpointingOptions | None
    sent: SentState


class ResumeTokens:
    """Makes the tokens of one frontend, and reads the tokens of all frontends."""

    def __init__(
        self,
        tokens: Tokens,
        seconds: float,
        model: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A token is good for `seconds`; 0 if there are to be none. `model` is the served one."""
        self._tokens = tokens
        self.seconds = seconds
        self._model = model
        self._clock = clock
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(ResumeState).decode

    def binding(self, key: ApiKey, start: Start) -> tuple[bytes, bytes]:
        """Return what stands for the client, and for the options of its session."""
        client = hashlib.sha256(self._encode((key.name, key.sha256))).digest()
        options = msgspec.structs.replace(start, resume=None)
        return client, hashlib.sha256(self._encode((self._model, options))).digest()

    def issue(
        self,
        binding: tuple[bytes, bytes],
        rate: int,
        session: str,
        chunk_ms: int,
        endpointing: EndpointingOptions | None,
        sent: SentState,
    ) -> Resume:
        """Return what goes with a message to a client that sends at `rate` Hz."""
        expires = self._clock() + self.seconds
        state = self._encode(ResumeState(expires, session, chunk_ms, endpointing, sent))
        head = _VERSION + b"".join(part[:_HINT_BYTES] for part in binding)
        sealed = self._tokens.seal(state, _VERSION + b"".join(binding))
        token = base64.urlsafe_b64encode(head + sealed).rstrip(b"=").decode()
        return Resume(token, client_sample(sent.listening.sample, rate))

    def open(self, resume: Resume, binding: tuple[bytes, bytes], rate: int) -> ResumeState:
        """Return the state of the session to continue.

        Raises an error of `refusals.py` unless the token was issued for the same `binding`, is
        not too old, and the client sends the audio from where it must.
        """
        token = _bytes(resume.token)
        sealed = self._tokens.open(token[_HEAD:], _VERSION + b"".join(binding))
        if sealed is None:
            client, options = token[1 : 1 + _HINT_BYTES], token[1 + _HINT_BYTES : _HEAD]
            if client != binding[0][:_HINT_BYTES]:
                raise ResumeOtherClient
            if options != binding[1][:_HINT_BYTES]:
                raise ResumeOtherOptions
            raise ResumeForged
        if token[1:_HEAD] != b"".join(part[:_HINT_BYTES] for part in binding):
            raise ResumeForged
        try:
            state = self._decode(sealed)
        except msgspec.DecodeError:  # of another version of auricle
            raise ResumeMalformed from None
        if self._clock() > state.expires:
            raise ResumeExpired(self.seconds)
        expected = client_sample(state.sent.listening.sample, rate)
        if resume.from_sample != expected:
            raise ResumePosition(resume.from_sample, expected)
        return state

    def late(self, state: ResumeState) -> float:
        """Return for how many seconds the client of a token sent nothing."""
        return max(0.0, self._clock() - (state.expires - self.seconds))


def _bytes(token: str) -> bytes:
    """Decode a token. Raises ResumeMalformed, also if another text stands for the same bytes."""
    if len(token) > RESUME_TOKEN or not token.isascii():
        raise ResumeMalformed
    try:
        found = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ResumeMalformed from None
    same = base64.urlsafe_b64encode(found).rstrip(b"=").decode() == token
    if not same or len(found) < _HEAD or found[:1] != _VERSION:
        raise ResumeMalformed
    return found
