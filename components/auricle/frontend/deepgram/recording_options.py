"""The options of a recording, as `POST /v1/listen` has them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.deepgram.given import ADVISORY, REFUSED, Given

_HONOURED = (
    *("model", "language", "detect_language", "keyterm", "keywords"),
    *("utterances", "multichannel"),
)
_ADVISORY = (
    *(name for name in ADVISORY if name not in _HONOURED),
    *("utt_split", "summarize", "sentiment", "topics", "custom_topic", "custom_topic_mode"),
    *("intents", "custom_intent", "custom_intent_mode"),
)
_IN_HEADER = "a recording says so in its header; send WAV, FLAC, MP3 or another common format"
_REFUSED = {
    **REFUSED,
    **dict.fromkeys(("encoding", "sample_rate", "channels"), _IN_HEADER),
}


@dataclass(frozen=True)
class RecordingOptions:
    """What was asked for.

    `says_language`: the answer names the language that was detected. `utterances`: it has each
    segment by itself too. `multichannel`: each channel has a transcript of its own.
    """

    model: str | None = None
    language: str | None = None
    says_language: bool = False
    context: str = ""
    utterances: bool = False
    multichannel: bool = False
    warnings: tuple[str, ...] = ()


def parse_recording_options(query: str) -> RecordingOptions:
    """Parse the query string. Raises BadRequest, naming the option and what would be right."""
    given = Given(query, _HONOURED, _ADVISORY, _REFUSED)
    return RecordingOptions(
        given.model(),
        given.language(),
        given.flag("detect_language"),
        given.context(),
        given.flag("utterances"),
        given.flag("multichannel"),
        given.all_warnings,
    )
