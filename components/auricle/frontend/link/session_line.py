"""The state of a session's connection to its processor, as a state machine without I/O.

Its inputs are what the client sent (`add`, `finish`) and what processors answered (`heard`,
`accepted`, `lost`). Its outputs are the messages to processors (`open_message`,
`next_message`) and whether an event goes to the client. The audio of the open segment is
kept until its text is final. If the processor is lost, the session is opened on another one
at the last resume point, and that audio is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from auricle.annotation.translation.text import Pairs, followed
from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.audio.chunks import AudioChunk, FeaturePiece
from auricle.protocol.annotation import (
    SegmentSpeakers,
    SegmentTranslation,
    Translating,
    Untranslated,
)
from auricle.protocol.sessions import (
    Accepted,
    EndAudio,
    Failed,
    HandedOver,
    OpenSession,
    PushAudio,
    SegmentFinal,
    SegmentPartial,
    SegmentWords,
    SessionDone,
    SessionEvent,
    SessionReady,
    WholeAudio,
)

# A session's audio whose text is not final yet, and which part of it was sent. No I/O.
#
# The processor says how much audio it needs before it can do any work. Less than that is not worth
# a request and is buffered here, unless it ends in a pause or an endpoint.

_LARGEST = 10 * SAMPLE_RATE  # most samples in one push


class ReplayBuffer:
    """A session's pieces in order: first those its processor has received, then the others.

    `unsent` is the number of samples (16 kHz) that the processor has not received.
    """

    def __init__(self) -> None:
        self.unsent = 0
        self._sent: deque[AudioChunk | FeaturePiece] = deque()
        self._waiting: deque[AudioChunk | FeaturePiece] = deque()
        # Waiting pieces that are sent at once: those with a boundary, and packets of features.
        self._urgent = 0
        self._wanted = 1
        self._final_before = 0  # session sample up to which text is final
        self._between = True  # nothing was added yet, or the last piece ended in an endpoint
        self._again = False  # everything kept must be sent to another processor

    def add(self, piece: AudioChunk | FeaturePiece) -> None:
        """Append the next piece, split so that no push holds more than 10 s."""
        self._between = piece.boundary == "endpoint"
        if isinstance(piece, FeaturePiece):
            self._wait(piece)
            return
        cuts = range(0, max(len(piece.pcm), 1), _LARGEST)
        for at in cuts:
            boundary = piece.boundary if at == cuts[-1] else "none"
            self._wait(AudioChunk(piece.start + at, piece.pcm[at : at + _LARGEST], boundary))

    def want(self, samples: int) -> None:
        """The processor has work to do once it has `samples` more."""
        self._wanted = samples

    @property
    def ready(self) -> bool:
        """Whether the waiting pieces are worth a push now."""
        if not self._waiting:
            return False
        return self._again or self._urgent > 0 or self.unsent >= self._wanted

    @property
    def missing(self) -> int:
        """Samples that must still be added before the processor has work to do."""
        return max(0, self._wanted - self.unsent)

    def next(self, *, all_of_it: bool = True) -> AudioChunk | FeaturePiece | None:
        """Return the piece to send now, or None. Adjacent waiting pieces are joined.

        Returns the same piece until `sent`. Without `all_of_it`, returns None unless `ready`.
        """
        if not self._waiting or not (all_of_it or self.ready):
            return None
        self._join_waiting()
        return self._waiting[0]

    def whole(self) -> AudioChunk | None:
        """Return everything kept as one piece, or None if one push cannot hold it.

        It is then kept as not sent: another processor owns the session now.
        """
        self.send_again()
        piece = self.next()
        return piece if isinstance(piece, AudioChunk) and len(self._waiting) == 1 else None

    def sent(self) -> None:
        """The processor has received the piece that `next` returned."""
        piece = self._waiting.popleft()
        self._count(piece, -1)
        self._sent.append(piece)
        self._again = self._again and bool(self._waiting)

    def forget_before(self, sample: int) -> None:
        """The text before session sample `sample` is final: forget the audio it came from.

        Pieces that were not sent yet are kept, boundaries included.
        """
        if sample > self._final_before:
            self._final_before = sample
            if not self._between:
                # A segment has begun since the processor said how much it wants, so that number
                # no longer applies: send again at once, which is answered by a new one.
                self._wanted = 1
        while self._sent and self._sent[0].end <= sample:
            self._sent.popleft()
        pieces = self._sent or self._waiting
        first = pieces[0] if pieces else None
        if isinstance(first, AudioChunk) and first.start < sample < first.end:
            # A copy: a slice would keep the whole piece's memory alive.
            pieces[0] = AudioChunk(sample, first.pcm[sample - first.start :].copy(), first.boundary)
            if pieces is self._waiting:
                self.unsent -= sample - first.start

    def send_again(self) -> None:
        """Mark everything kept as not sent, because another processor owns the session now."""
        for piece in reversed(self._sent):
            self._waiting.appendleft(piece)
            self._count(piece, 1)
        self._sent.clear()
        self._again = True

    def _wait(self, piece: AudioChunk | FeaturePiece) -> None:
        self._waiting.append(piece)
        self._count(piece, 1)

    def _count(self, piece: AudioChunk | FeaturePiece, sign: int) -> None:
        self.unsent += sign * (piece.end - piece.start)
        self._urgent += sign * (isinstance(piece, FeaturePiece) or piece.boundary != "none")

    def _join_waiting(self) -> None:
        """Join the pieces at the head, up to a boundary, a gap, or the size of one push."""
        first = self._waiting.popleft()
        if isinstance(first, FeaturePiece):
            self._waiting.appendleft(first)
            return
        parts, end, boundary = [first.pcm], first.end, first.boundary
        while boundary == "none" and self._waiting:
            following = self._waiting[0]
            if not isinstance(following, AudioChunk) or following.start != end:
                break
            if following.end - first.start > _LARGEST:
                break
            self._waiting.popleft()
            parts.append(following.pcm)
            end, boundary = following.end, following.boundary
        pcm = first.pcm if len(parts) == 1 else np.concatenate(parts)
        self._waiting.appendleft(AudioChunk(first.start, pcm, boundary))


# What was told of a session's translations, as whoever goes on with it must know. No I/O.


class ToldTranslations:
    """Follows the events of one session in the order in which they are told."""

    def __init__(self, languages: Sequence[str], begun: Translating) -> None:
        """The session goes on after `begun`, and is translated into `languages`."""
        self._languages = languages
        self._open = {(one.segment, one.language): one for one in begun.untranslated}
        self._before: dict[str, Pairs] = dict(begun.before)

    def final(self, event: SegmentFinal) -> None:
        """A segment's final text is told."""
        if not event.text:
            return
        for language in self._languages:
            told = self._open.get((event.segment, language))
            committed = "" if told is None else told.committed
            self._open[event.segment, language] = Untranslated(
                event.segment, language, committed, event.text, event.language
            )

    def translation(self, event: SegmentTranslation) -> None:
        """A part of a translation is told, or its last event."""
        key = event.segment, event.language
        told = self._open.get(key, Untranslated(*key))
        if not event.final:
            self._open[key] = Untranslated(*key, event.committed, told.source, told.spoken)
            return
        self._open.pop(key, None)
        if not event.missing:
            before = self._before.get(event.language, ())
            self._before[event.language] = followed(before, told.source, event.committed)

    def state(self) -> Translating:
        """Return what was told, and what is still to come."""
        return Translating(tuple(self._open.values()), dict(self._before))


_AHEAD = 40 * SAMPLE_RATE  # samples that may be unsent before backpressure is applied
# The session fails when this many processors in a row were lost, or full, with no text between.
_LOSSES = 4
_PAUSE_SECONDS = 1.0
PROCESSOR_LOST = "processor_lost"  # why words are missing


class SessionLine:
    """One session's line to its processor.

    `connected`: a processor owns the session now. `over`: the last event, Done or Failed,
    was received. `ahead`: the client is ahead of real time; set by the owner.
    """

    def __init__(self, opened: OpenSession) -> None:
        self.connected = False
        self.over = False
        self.ahead = False
        self._opened = opened
        self._session = opened.session  # the session's name on its current processor
        self._kept = ReplayBuffer()
        self._total: int | None = None
        self._end_accepted = False
        self._announced = False
        # Segments whose words and speakers are still to come; with the processor they are lost.
        self._wordless: list[int] = []
        self._speakerless: list[int] = []
        self._translations = ToldTranslations(opened.translate, opened.resume.translations)
        self._opens = 0
        self._losses = 0

    # ── the client's side ───────────────────────────────────────────────────

    def add(self, piece: AudioChunk | FeaturePiece) -> None:
        """Append speech. Pieces must come in order."""
        self._kept.add(piece)

    def finish(self, total_samples: int) -> None:
        """End the audio. The session has `total_samples` (16 kHz), silence included."""
        self._total = total_samples

    def follow(self, context: str, language: str) -> None:
        """Set the text before this session, and its language. Call this before `open_message`."""
        resume = replace(self._opened.resume, context=context, language=language)
        self._opened = replace(self._opened, resume=resume)

    @property
    def full(self) -> bool:
        """Whether to apply backpressure, because 40 s of audio or more are unsent."""
        return self._kept.unsent >= _AHEAD

    @property
    def missing(self) -> int | None:
        """Samples of speech that must still come before there is a message worth sending.

        None if that is not known, because no processor has the session.
        """
        if not self.connected:
            return None
        # Otherwise a message is on its way, whose answer will say: a chunk at most.
        chunk = self._opened.chunk_ms * SAMPLE_RATE // 1000
        return chunk if self._kept.ready else self._kept.missing

    # ── to the processors ───────────────────────────────────────────────────

    @property
    def session(self) -> str:
        """The session's name on its current processor."""
        return self._session

    def open_message(self) -> OpenSession:
        """Return the message that opens the session on the next processor."""
        # The name is new each time, because a lost processor may still hold the session.
        name = self._opened.session
        self._session = f"{name}.{self._opens}" if self._opens else name
        self._opens += 1
        self._end_accepted = False
        whole = self._whole() if self._opened.background else None
        resume = replace(self._opened.resume, translations=self._translations.state())
        return replace(self._opened, session=self._session, whole=whole, resume=resume)

    def _whole(self) -> WholeAudio | None:
        """Return the audio of a recording's part, which is there already: no calls follow then."""
        piece = None if self._total is None else self._kept.whole()
        if piece is None or self._total is None:
            return None
        return WholeAudio(piece.start, _bytes(piece), piece.boundary, self._total)

    @property
    def ready(self) -> bool:
        """Whether `next_message` has a message that is worth sending."""
        ends = self._total is not None and not self._end_accepted
        return self.connected and (ends or self._kept.ready)

    def next_message(self) -> PushAudio | EndAudio | None:
        """Return the message to send now, or None. It stays the same until it is `accepted`."""
        if not self.connected:
            return None
        piece = self._kept.next(all_of_it=self._total is not None)
        tenant = self._opened.tenant
        if isinstance(piece, FeaturePiece):
            packet = piece.packet
            return PushAudio(
                *(self._session, tenant, piece.start, b"", piece.boundary), packet, self.ahead
            )
        if piece is not None:
            pcm = _bytes(piece)
            return PushAudio(
                *(self._session, tenant, piece.start, pcm, piece.boundary), ahead=self.ahead
            )
        if self._total is not None and not self._end_accepted:
            return EndAudio(self._session, tenant, self._total)
        return None

    def overdue(self, message: PushAudio | EndAudio) -> bool:
        """The processor did not accept the message in time. Return whether it must be left.

        It need not if the session has moved meanwhile. If it must, nothing more is sent to it,
        and `lost` follows.
        """
        if message.session != self._session or not self.connected:
            return False
        self.connected = False
        return True

    # ── from the processors ─────────────────────────────────────────────────

    def accepted(self, message: PushAudio | EndAudio, reply: Accepted) -> None:
        """The processor accepted the message."""
        if message.session != self._session:
            return  # the session has moved to another processor meanwhile
        if isinstance(message, EndAudio):
            self._end_accepted = True
            return
        self._kept.sent()
        self._kept.want(reply.wanted_samples)

    def heard(self, event: SessionEvent) -> bool:
        """Take the processor's next event; return whether it goes to the client."""
        if isinstance(event, SessionReady):
            self.connected = True
            self._kept.send_again()
            self._kept.want(event.wanted_samples)
            if event.whole:
                self._all_received()
            first, self._announced = not self._announced, True
            return first
        if isinstance(event, SegmentPartial | SegmentFinal | HandedOver):
            self._opened = replace(self._opened, resume=event.resume)
            self._kept.forget_before(event.resume.segment_start)
        self._note_late(event)
        if isinstance(event, HandedOver):
            self.connected = False
            return False
        self._losses = 0
        self.over = isinstance(event, SessionDone | Failed)
        self.connected = not self.over
        return True

    def _all_received(self) -> None:
        """The processor has the audio from the message that opened the session."""
        while self._kept.next() is not None:
            self._kept.sent()
        self._end_accepted = True

    def _note_late(self, event: SessionEvent) -> None:
        """Note what is still to come for a final, and what has come."""
        if isinstance(event, SegmentTranslation):
            self._translations.translation(event)
        if isinstance(event, SegmentFinal) and event.text:
            self._wordless += [event.segment] * self._opened.words
            self._speakerless += [event.segment] * self._opened.diarize
            self._translations.final(event)
        elif isinstance(event, SegmentWords) and event.segment in self._wordless:
            self._wordless.remove(event.segment)
        elif isinstance(event, SegmentSpeakers):
            resume = replace(self._opened.resume, speakers=event.state)
            self._opened = replace(self._opened, resume=resume)
            if event.segment in self._speakerless:
                self._speakerless.remove(event.segment)

    def lost_late(self) -> list[SegmentWords | SegmentSpeakers]:
        """Return what the client is told instead of what was lost with a processor."""
        words, self._wordless = self._wordless, []
        speakers, self._speakerless = self._speakerless, []
        state = self._opened.resume.speakers
        return [
            *(SegmentWords(segment, missing=PROCESSOR_LOST) for segment in words),
            *(
                SegmentSpeakers(segment, missing=PROCESSOR_LOST, state=state)
                for segment in speakers
            ),
        ]

    def lost(self) -> float | None:
        """The processor was lost or full. Return the seconds to wait before trying the next one.

        Returns None if too many were lost in a row.
        """
        self.connected = False
        self._losses += 1
        if self._losses == _LOSSES:
            return None
        return _PAUSE_SECONDS * (self._losses - 1)


def _bytes(piece: AudioChunk) -> bytes:
    return piece.pcm.astype("<i2", copy=False).tobytes()
