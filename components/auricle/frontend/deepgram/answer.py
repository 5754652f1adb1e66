"""The answer to `POST /v1/listen`. No I/O.

Names and fields are Deepgram's; times are in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from auricle.checkpoint.languages import language_code
from auricle.confidence import of_text
from auricle.frontend.deepgram.messages import (
    alternative,
    model_info,
    speaker_number,
    timestamp,
)
from auricle.frontend.deepgram.recording_options import RecordingOptions
from auricle.frontend.recordings.by_speaker import by_speaker
from auricle.frontend.recordings.part_speakers import missing_speakers
from auricle.frontend.recordings.part_words import missing_words
from auricle.frontend.recordings.transcriber import Segment, Whole


@dataclass(frozen=True)
class Channel:
    """What was said in one channel: the segments with text, in order."""

    segments: Sequence[Segment]
    whole: Whole


def answer(
    request: str,
    model: str,
    sha256: str,
    created: datetime,
    channels: Sequence[Channel],
    options: RecordingOptions,
) -> dict[str, Any]:
    """Return the response's body. `warnings` is an extension of Deepgram's."""
    results: dict[str, Any] = {"channels": [_channel(one, options) for one in channels]}
    if options.utterances:
        results["utterances"] = [
            utterance
            for number, channel in enumerate(channels)
            for segment in channel.segments
            for utterance in _utterances(request, number, segment)
        ]
    metadata = {
        "transaction_key": "deprecated",
        "request_id": request,
        "sha256": sha256,
        "created": timestamp(created),
        "duration": round(channels[0].whole.seconds, 3),
        "channels": len(channels),
        "models": [model],
        "model_info": {model: model_info(model)},
        "warnings": [
            *options.warnings,
            *missing_words(one.words for channel in channels for one in channel.segments),
            *missing_speakers(one.speakers for channel in channels for one in channel.segments),
        ],
    }
    return {"metadata": metadata, "results": results}


def _channel(channel: Channel, options: RecordingOptions) -> dict[str, Any]:
    sayings = [saying for segment in channel.segments for saying in by_speaker(segment)]
    told: dict[str, Any] = {
        "alternatives": [
            alternative(
                " ".join(one.text for one in channel.segments),
                [word for saying in sayings for word in saying.words],
                of_text(word.confidence for one in channel.segments for word in one.grid_words),
                [saying.speaker for saying in sayings for _ in saying.words],
            )
        ]
    }
    if options.says_language and channel.segments:
        names = Counter(segment.language for segment in channel.segments)
        name = names.most_common(1)[0][0]
        told["detected_language"] = language_code(name) or name.lower()
    return told


def _utterances(request: str, channel: int, segment: Segment) -> Iterator[dict[str, Any]]:
    """Yield what is said in a segment, by each speaker if they are known."""
    sayings = by_speaker(segment)
    for saying in sayings:
        # The segment's confidence is that of all its words.
        own = len(sayings) > 1 and bool(saying.words)
        speakers = [saying.speaker] * len(saying.words)
        told = {
            "start": saying.start_ms / 1000,
            "end": saying.end_ms / 1000,
            **alternative(
                saying.text.strip(), saying.words, None if own else segment.confidence, speakers
            ),
            "channel": channel,
            "id": f"{request}.{channel}.{saying.start_ms}",
        }
        if saying.speaker is not None:
            told["speaker"] = speaker_number(saying.speaker)
        yield told
