"""Subtitle formats. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Cue:
    """A subtitle and its time, in milliseconds of the recording."""

    start_ms: int
    end_ms: int
    text: str


def as_srt(cues: Iterable[Cue]) -> str:
    """Return SubRip subtitles."""
    return "\n".join(
        f"{number}\n{_time(cue.start_ms, ',')} --> {_time(cue.end_ms, ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues, 1)
    )


def as_vtt(cues: Iterable[Cue]) -> str:
    """Return WebVTT subtitles."""
    shown = (
        f"{_time(cue.start_ms, '.')} --> {_time(cue.end_ms, '.')}\n{cue.text}\n" for cue in cues
    )
    return "\n".join(["WEBVTT\n", *shown])


def _time(milliseconds: int, point: str) -> str:
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}"
