"""What endpointing finds in a session's audio: pieces of speech, and its marks. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from auricle.audio.features import FeaturePacket
from auricle.audio.pcm import Int16
from auricle.messages.sessions import Boundary


@dataclass(frozen=True)
class Piece:
    """16 kHz mono audio, shape (n,), from session sample `start`; `boundary` follows it."""

    start: int
    pcm: Int16
    boundary: Boundary = "none"

    @property
    def end(self) -> int:
        """The session sample after the last one."""
        return self.start + len(self.pcm)


@dataclass(frozen=True)
class FeaturePiece:
    """Features from session sample `start` instead of audio. They are never cut or joined."""

    start: int
    packet: FeaturePacket

    @property
    def boundary(self) -> Boundary:
        """An endpoint after the segment's last packet, because the client does endpointing."""
        return "endpoint" if self.packet.last else "none"

    @property
    def end(self) -> int:
        """The session sample after the last one."""
        return self.packet.end


@dataclass(frozen=True)
class SpeechStarted:
    """Speech began at session sample `at`, which does not include the pre-roll."""

    at: int


@dataclass(frozen=True)
class SpeechStopped:
    """Speech ended at session sample `at`. Emitted once the silence was long enough.

    `probability` is what the turn model said of it, where that has ended speech at once.
    """

    at: int
    probability: float | None = None


@dataclass(frozen=True)
class TurnPaused:
    """Speech paused at session sample `at`: with this probability (0 to 1) the turn is over.

    It goes on, with `TurnResumed`, or ends with `SpeechStopped`.
    """

    at: int
    probability: float


@dataclass(frozen=True)
class TurnResumed:
    """The turn that had paused goes on at session sample `at`."""

    at: int


Mark = SpeechStarted | SpeechStopped | TurnPaused | TurnResumed
GateEvent = Piece | FeaturePiece | Mark


def merged(events: list[GateEvent]) -> list[GateEvent]:
    """Join adjacent pieces that have no boundary between them; each sample is copied once."""
    merged: list[GateEvent] = []
    run: list[Piece] = []
    for event in events:
        if run and not (isinstance(event, Piece) and _goes_on(run[-1], event)):
            merged.append(_joined(run))
            run = []
        if isinstance(event, Piece):
            run.append(event)
        else:
            merged.append(event)
    return [*merged, _joined(run)] if run else merged


def _goes_on(piece: Piece, following: Piece) -> bool:
    return piece.boundary == "none" and piece.end == following.start


def _joined(run: list[Piece]) -> Piece:
    if len(run) == 1:
        return run[0]
    return Piece(run[0].start, np.concatenate([piece.pcm for piece in run]), run[-1].boundary)
