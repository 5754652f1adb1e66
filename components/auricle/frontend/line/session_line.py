"""The state of a session's connection to its processor, as a state machine without I/O.

Its inputs are what the client sent (`add`, `finish`) and what processors answered (`heard`,
`accepted`, `lost`). Its outputs are the messages to processors (`open_message`,
`next_message`) and whether an event goes to the client. The audio of the open segment is
kept until its text is final. If the processor is lost, the session is opened on another one
at the last resume point, and that audio is sent again.
"""

from __future__ import annotations

from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.line.kept_audio import KeptAudio
from auricle.frontend.line.told_translations import ToldTranslations
from auricle.frontend.listening.pieces import FeaturePiece, Piece
from auricle.messages.sessions import (
    Accepted,
    Done,
    EndAudio,
    Failed,
    Final,
    HandedOver,
    OpenSession,
    Partial,
    PushAudio,
    SessionEvent,
    SessionReady,
    WholeAudio,
    Words,
)
from auricle.messages.speakers import Speakers
from auricle.messages.translations import Translation

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
        self._kept = KeptAudio()
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

    def add(self, piece: Piece | FeaturePiece) -> None:
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
        if isinstance(event, Partial | Final | HandedOver):
            self._opened = replace(self._opened, resume=event.resume)
            self._kept.forget_before(event.resume.segment_start)
        self._note_late(event)
        if isinstance(event, HandedOver):
            self.connected = False
            return False
        self._losses = 0
        self.over = isinstance(event, Done | Failed)
        self.connected = not self.over
        return True

    def _all_received(self) -> None:
        """The processor has the audio from the message that opened the session."""
        while self._kept.next() is not None:
            self._kept.sent()
        self._end_accepted = True

    def _note_late(self, event: SessionEvent) -> None:
        """Note what is still to come for a final, and what has come."""
        if isinstance(event, Translation):
            self._translations.translation(event)
        if isinstance(event, Final) and event.text:
            self._wordless += [event.segment] * self._opened.words
            self._speakerless += [event.segment] * self._opened.diarize
            self._translations.final(event)
        elif isinstance(event, Words) and event.segment in self._wordless:
            self._wordless.remove(event.segment)
        elif isinstance(event, Speakers):
            resume = replace(self._opened.resume, speakers=event.state)
            self._opened = replace(self._opened, resume=resume)
            if event.segment in self._speakerless:
                self._speakerless.remove(event.segment)

    def lost_late(self) -> list[Words | Speakers]:
        """Return what the client is told instead of what was lost with a processor."""
        words, self._wordless = self._wordless, []
        speakers, self._speakerless = self._speakerless, []
        state = self._opened.resume.speakers
        return [
            *(Words(segment, missing=PROCESSOR_LOST) for segment in words),
            *(Speakers(segment, missing=PROCESSOR_LOST, state=state) for segment in speakers),
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


def _bytes(piece: Piece) -> bytes:
    return piece.pcm.astype("<i2", copy=False).tobytes()
