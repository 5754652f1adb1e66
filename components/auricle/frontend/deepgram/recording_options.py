"""The options of a recording, as `POST /v1/listen` has them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.deepgram.given import ADVISORY, REFUSED, Given
from auricle.quoting import quoted

_HONOURED = (
    *("model", "language", "detect_language", "keyterm", "keywords"),
    *("utterances", "multichannel", "diarize", "diarize_model"),
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
    segment by itself too. `multichannel`: each channel has a transcript of its own. `diarize`: it
    says who speaks in it.
    """

    model: str | None = None
    language: str | None = None
    says_language: bool = False
    context: str = ""
    utterances: bool = False
    multichannel: bool = False
    diarize: bool = False
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
        _diarize(given),
        given.all_warnings,
    )


def _diarize(given: Given) -> bool:
    """Return whether speakers are asked for, as of old or by the name of a model."""
    named = given.one("diarize_model") or ""
    if given.off("diarize_model"):
        return given.flag("diarize")
    if named.lower() != "latest":
        given.warnings.append(f"diarize_model {quoted(named)} has no effect: there is one model")
    return True
