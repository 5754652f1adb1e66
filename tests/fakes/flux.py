"""What a session of Flux is given, and what it tells."""

from __future__ import annotations

from typing import Any

import numpy as np

from auricle.frontend.listening.pieces import Piece, SpeechStarted, SpeechStopped
from auricle.messages.sessions import Final, ResumePoint

FORCE = '{"type": "ForceEndTurn"}'
S = 16_000  # samples of a second


def speech(begin: float, end: float) -> list[Any]:
    """Speech that endpointing has heard, and its end."""
    samples = int((end - begin) * S)
    piece = Piece(int(begin * S), np.zeros(samples, np.int16), "endpoint")
    return [SpeechStarted(int(begin * S)), piece, SpeechStopped(int(end * S))]


def final(text: str, begin: float, end: float) -> Final:
    resume = ResumePoint(1, int(end * S))
    return Final(0, text, int(begin * 1000), int(end * 1000), "English", resume)


def told(replies: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(reply["event"], reply["turn_index"], reply["transcript"]) for reply in replies]


def until(seconds: float) -> int:
    return int(seconds * S)
