"""Renders a transcript in each response format. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.frontend.line.token_scores import joined
from auricle.frontend.recordings.transcriber import Segment
from auricle.messages import ScoredToken


@dataclass(frozen=True)
class Transcript:
    """The segments with text, in order; `seconds` is the duration of the whole recording."""

    segments: Sequence[Segment]
    seconds: float

    @property
    def text(self) -> str:
        """The whole text: the segments, joined by spaces."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def tokens(self) -> tuple[ScoredToken, ...]:
        """The tokens of the whole text; empty unless they were asked for."""
        return joined((segment.text, segment.tokens) for segment in self.segments)

    @property
    def language(self) -> str:
        """The most frequent language of the segments, in lower case; empty without segments."""
        counts = Counter(segment.language for segment in self.segments)
        return counts.most_common(1)[0][0].lower() if counts else ""


def usage(seconds: float) -> dict[str, object]:
    """Return OpenAI's usage object for billing by duration."""
    return {"type": "duration", "seconds": round(seconds, 3)}


def as_json(transcript: Transcript) -> dict[str, object]:
    """Return the body for `json`."""
    return {"text": transcript.text, "usage": usage(transcript.seconds)}


def as_verbose_json(transcript: Transcript) -> dict[str, object]:
    """Return the body for `verbose_json`; fields specific to Whisper's decoder are left out."""
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
    """Return SubRip subtitles."""
    cues = [
        f"{number}\n{_time(s.start, ',')} --> {_time(s.end, ',')}\n{s.text}\n"
        for number, s in enumerate(transcript.segments, 1)
    ]
    return "\n".join(cues)


def as_vtt(transcript: Transcript) -> str:
    """Return WebVTT subtitles."""
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
