"""The answer to `POST /v1/listen`. No I/O.

Names and fields are Deepgram's; times are in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from auricle.audio.constants import SAMPLE_RATE
from auricle.checkpoint.languages import language_code
from auricle.confidence import of_text
from auricle.frontend.deepgram.messages import alternative, model_info, timestamp
from auricle.frontend.deepgram.recording_options import RecordingOptions
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
            _utterance(request, number, segment)
            for number, channel in enumerate(channels)
            for segment in channel.segments
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
        ],
    }
    return {"metadata": metadata, "results": results}


def _channel(channel: Channel, options: RecordingOptions) -> dict[str, Any]:
    told: dict[str, Any] = {
        "alternatives": [
            alternative(
                " ".join(one.text for one in channel.segments),
                [word for one in channel.segments for word in one.words.words],
                of_text(word.confidence for one in channel.segments for word in one.grid_words),
            )
        ]
    }
    if options.says_language and channel.segments:
        names = Counter(segment.language for segment in channel.segments)
        name = names.most_common(1)[0][0]
        told["detected_language"] = language_code(name) or name.lower()
    return told


def _utterance(request: str, channel: int, segment: Segment) -> dict[str, Any]:
    return {
        "start": round(segment.start / SAMPLE_RATE, 3),
        "end": round(segment.end / SAMPLE_RATE, 3),
        **alternative(segment.text, segment.words.words, segment.confidence),
        "channel": channel,
        "id": f"{request}.{channel}.{segment.start}",
    }
