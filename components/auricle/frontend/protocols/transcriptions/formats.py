"""Renders a transcript in each response format. No I/O."""

from __future__ import annotations

import textwrap
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from auricle.audio.constants import HOP, SAMPLE_RATE
from auricle.frontend.link.words import joined, speaker_letter
from auricle.frontend.recordings.transcriber import RecordingSegment, Saying, by_speaker
from auricle.protocol.sessions import ScoredToken
from auricle.protocol.stream import Word
from auricle.transcript import subtitles
from auricle.transcript.subtitles import Cue


def lines(whole: Cue, words: Sequence[Word], most: int) -> Iterator[Cue]:
    """Cut a segment into subtitles of one line of at most `most` characters, at its words.

    A longer word is a line. Without times of words the segment stays `whole`, on several lines.
    """
    if not words:
        yield Cue(whole.start_ms, whole.end_ms, "\n".join(textwrap.wrap(whole.text, most)))
        return
    line: list[Word] = []
    for word in words:
        if line and len("".join(one.text for one in [*line, word]).rstrip()) > most:
            yield _cue(line)
            line = []
        line.append(word)
    yield _cue(line)


def _cue(line: Sequence[Word]) -> Cue:
    return Cue(line[0].start_ms, line[-1].end_ms, "".join(word.text for word in line).strip())


@dataclass(frozen=True)
class TimedTranscript:
    """The segments with text, in order; `seconds` is the duration of the whole recording.

    `warnings` concern the whole recording.
    """

    segments: Sequence[RecordingSegment]
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    @property
    def tokens(self) -> tuple[ScoredToken, ...]:
        """The tokens of the whole text; empty unless they were requested."""
        return joined((segment.text, segment.tokens) for segment in self.segments)

    @property
    def language(self) -> str:
        """The most frequent language of the segments, in lower case; empty without segments."""
        counts = Counter(segment.language for segment in self.segments)
        return counts.most_common(1)[0][0].lower() if counts else ""


def usage(seconds: float) -> dict[str, object]:
    return {"type": "duration", "seconds": round(seconds, 3)}


def token_usage(segments: Iterable[RecordingSegment]) -> dict[str, int]:
    """Return the tokens of all prompts, audio included, and those that were generated."""
    spent = [segment.usage for segment in segments]
    read = sum(usage.prompt_tokens for usage in spent)
    written = sum(usage.output_tokens for usage in spent)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def as_json(transcript: TimedTranscript) -> dict[str, object]:
    return {"text": transcript.text, "usage": usage(transcript.seconds)}


def as_verbose_json(transcript: TimedTranscript, task: str = "transcribe") -> dict[str, object]:
    return {
        "task": task,
        "language": transcript.language,
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "segments": [
            _verbose(number, segment) for number, segment in enumerate(transcript.segments)
        ],
        "usage": usage(transcript.seconds),
    }


def _verbose(number: int, segment: RecordingSegment) -> dict[str, object]:
    """Return a segment as OpenAI has it. Each is decoded by itself, so it begins where it seeks."""
    tokens, text = segment.tokens, segment.text.encode()
    # Another processor may have generated some of the tokens: then none is known.
    certainty = {"avg_logprob": fmean(token.logprob for token in tokens)} if tokens else {}
    return {
        "id": number,
        "seek": segment.start // HOP,
        "start": segment.start / SAMPLE_RATE,
        "end": segment.end / SAMPLE_RATE,
        "text": segment.text,
        "tokens": [token.id for token in tokens],
        "temperature": 0.0,
        **certainty,
        "compression_ratio": len(text) / len(zlib.compress(text)),
        "no_speech_prob": 1.0 - segment.speech,
    }


def as_diarized_json(transcript: TimedTranscript) -> dict[str, object]:
    return {
        "task": "transcribe",
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "segments": by_speakers(transcript),
        "usage": usage(transcript.seconds),
    }


def by_speakers(transcript: TimedTranscript) -> list[dict[str, object]]:
    """Return the segments of `diarized_json`."""
    sayings = (saying for segment in transcript.segments for saying in by_speaker(segment))
    return [diarized_segment(number, saying) for number, saying in enumerate(sayings)]


def diarized_segment(number: int, saying: Saying) -> dict[str, object]:
    """Return a segment of `diarized_json`, which is an event of a stream too; `number` from 0.

    Speakers are A, B, … in the order in which they speak, or `unknown`.
    """
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{number + 1:03}",
        "start": saying.start_ms / 1000,
        "end": saying.end_ms / 1000,
        "speaker": "unknown" if saying.speaker is None else speaker_letter(saying.speaker),
        "text": saying.text.strip(),
    }


def words(transcript: TimedTranscript) -> list[dict[str, object]]:
    """Return the words with known times."""
    return [
        {
            "word": word.word,
            "start": word.start_ms / 1000,
            "end": word.end_ms / 1000,
            # An extension of OpenAI's API.
            **({} if word.confidence is None else {"confidence": word.confidence}),
        }
        for segment in transcript.segments
        for word in segment.words.words
    ]


def as_srt(transcript: TimedTranscript, line: int | None = None) -> str:
    """Return SubRip subtitles of segments, or of lines of at most `line` characters."""
    return subtitles.as_srt(_cues(transcript, line))


def as_vtt(transcript: TimedTranscript, line: int | None = None) -> str:
    """Return WebVTT subtitles of segments, or of lines of at most `line` characters."""
    return subtitles.as_vtt(_cues(transcript, line))


def _cues(transcript: TimedTranscript, line: int | None) -> Iterator[Cue]:
    for segment in transcript.segments:
        whole = Cue(
            segment.start * 1000 // SAMPLE_RATE, segment.end * 1000 // SAMPLE_RATE, segment.text
        )
        yield from [whole] if line is None else lines(whole, segment.words.words, line)
