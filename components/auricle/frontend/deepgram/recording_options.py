"""The options of a recording, as `POST /v1/listen` has them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.frontend.deepgram.options import ADVISORY, REFUSED, REPEATED, Spoken, asked
from auricle.frontend.doors.options import Others, switched_off
from auricle.quoting import quoted

_IN_HEADER = "a recording says so in its header; send WAV, FLAC, MP3 or another common format"
_OTHERS = Others(
    {**REFUSED, **dict.fromkeys(("encoding", "sample_rate", "channels"), _IN_HEADER)},
    (
        *ADVISORY,
        *("utt_split", "summarize", "sentiment", "topics", "custom_topic", "custom_topic_mode"),
        *("intents", "custom_intent", "custom_intent_mode"),
    ),
    (*REPEATED, "custom_topic", "custom_intent"),
)


class _Given(Spoken, frozen=True, kw_only=True):
    utterances: bool = False
    diarize: bool = False
    diarize_model: str = ""


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
    given, idle = asked(query, _Given, _OTHERS)
    warnings: list[str] = []
    named = given.diarize_model  # speakers are asked for as of old, or by the name of a model
    context = given.context(warnings)
    if not switched_off(named) and named.lower() != "latest":
        warnings.append(f"diarize_model {quoted(named)} has no effect: there is one model")
    return RecordingOptions(
        given.model,
        given.forced(),
        given.detect_language,
        context,
        given.utterances,
        given.multichannel,
        given.diarize if switched_off(named) else True,
        (*warnings, *idle),
    )
