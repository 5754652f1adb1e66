"""Subtitles, and other formats of text with times. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TABS = re.compile(r"[\t\n]+")


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


def as_tsv(cues: Iterable[Cue]) -> str:
    """Return tab-separated lines as Whisper's command line does: start and end in ms, text."""
    rows = (f"{cue.start_ms}\t{cue.end_ms}\t{_TABS.sub(' ', cue.text)}\n" for cue in cues)
    return "".join(("start\tend\ttext\n", *rows))


def _time(milliseconds: int, point: str) -> str:
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}"
