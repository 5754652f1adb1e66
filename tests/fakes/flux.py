"""Inputs and outputs of a Flux session."""

from __future__ import annotations

from typing import Any

import numpy as np

from auricle.frontend.audio.chunks import AudioChunk, SpeechEnd, SpeechOnset
from auricle.protocol.sessions import ResumePoint, SegmentFinal

FORCE = '{"type": "ForceEndTurn"}'
S = 16_000  # samples of a second


def speech(begin: float, end: float) -> list[Any]:
    """Speech that endpointing has detected, and its end."""
    samples = int((end - begin) * S)
    piece = AudioChunk(int(begin * S), np.zeros(samples, np.int16), "endpoint")
    return [SpeechOnset(int(begin * S)), piece, SpeechEnd(int(end * S))]


def final(text: str, begin: float, end: float) -> SegmentFinal:
    resume = ResumePoint(1, int(end * S))
    return SegmentFinal(0, text, int(begin * 1000), int(end * 1000), "English", resume)


def told(replies: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(reply["event"], reply["turn_index"], reply["transcript"]) for reply in replies]


def until(seconds: float) -> int:
    return int(seconds * S)
