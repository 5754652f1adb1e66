"""A transcript in each response format. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.mel import SAMPLE_RATE
from auricle.frontend.recordings.transcriber import Segment

WITHOUT_TIMES = ("json", "text")


@dataclass(frozen=True)
class Transcript:
    """`segments` in order, those without text left out; `seconds` of the whole recording."""

    segments: Sequence[Segment]
    seconds: float

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def language(self) -> str:
        """The one most segments are in, in lower case; empty if nothing was said."""
        counts = Counter(segment.language for segment in self.segments)
        return counts.most_common(1)[0][0].lower() if counts else ""


def usage(seconds: float) -> dict[str, object]:
    """OpenAI's usage by duration."""
    return {"type": "duration", "seconds": round(seconds, 3)}


def as_json(transcript: Transcript) -> dict[str, object]:
    """`json`."""
    return {"text": transcript.text, "usage": usage(transcript.seconds)}


def as_verbose_json(transcript: Transcript) -> dict[str, object]:
    """`verbose_json`. What whisper's decoder alone can say (log probabilities) is left out."""
    return {
        "task": "transcribe",
        "language": transcript.language,
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "segments": [
            {
                "id": number,
                "seek": 0,
                "start": segment.start / SAMPLE_RATE,
                "end": segment.end / SAMPLE_RATE,
                "text": segment.text,
                "tokens": [],
                "temperature": 0.0,
            }
            for number, segment in enumerate(transcript.segments)
        ],
        "usage": usage(transcript.seconds),
    }


def as_srt(transcript: Transcript) -> str:
    """SubRip."""
    cues = [
        f"{number}\n{_time(s.start, ',')} --> {_time(s.end, ',')}\n{s.text}\n"
        for number, s in enumerate(transcript.segments, 1)
    ]
    return "\n".join(cues)


def as_vtt(transcript: Transcript) -> str:
    """WebVTT."""
    cues = [
        f"{_time(s.start, '.')} --> {_time(s.end, '.')}\n{s.text}\n" for s in transcript.segments
    ]
    return "\n".join(["WEBVTT\n", *cues])


def _time(sample: int, point: str) -> str:
    milliseconds = sample * 1000 // SAMPLE_RATE
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}"
