"""Listening without voice activity detection. No I/O."""

from __future__ import annotations

from auricle.audio.pcm import Int16
from auricle.frontend.listening.pieces import GateEvent, Piece


class OpenGate:
    """Passes on all audio, for a session without voice activity detection."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def push(self, pcm: Int16) -> list[GateEvent]:
        """Return the audio unchanged, as one piece."""
        piece = Piece(self._next, pcm)
        self._next = piece.end
        return [piece]
