"""The options of a live session. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.errors import UnsupportedValue
from auricle.frontend.deepgram.given import ADVISORY, REFUSED, Given, whole, wrong
from auricle.frontend.dialects.options import AudioOptions
from auricle.frontend.line.word_times import word_times
from auricle.live_settings import MAX_SILENCE_MS, MIN_SILENCE_MS

ENCODINGS = {"linear16": "pcm_s16le", "mulaw": "pcm_mulaw", "alaw": "pcm_alaw"}
_G711_RATE = 8_000
_HONOURED = (
    *("encoding", "sample_rate", "channels", "multichannel", "model", "language"),
    *("detect_language", "interim_results", "vad_events", "endpointing", "utterance_end_ms"),
    *("keyterm", "keywords", "word_times"),
)
_REFUSED = {**REFUSED, "callback": "results are sent on the connection"}


@dataclass(frozen=True, kw_only=True)
class ListenOptions(AudioOptions):
    """What was asked for on `/v1/listen`. `speech_final`: results say where speech ended."""

    vad_events: bool = False
    speech_final: bool = True
    utterance_end_ms: int | None = None


def parse_options(query: str, most_channels: int = 1) -> ListenOptions:
    """Parse the query string. Raises BadRequest, naming the option and what would be right.

    A client may have so many channels transcribed apart.
    """
    given = Given(query, _HONOURED, ADVISORY, _REFUSED)
    encoding, sample_rate = audio_form(given)
    silence_ms, speech_final = _endpointing(given)
    return ListenOptions(
        encoding=encoding,
        sample_rate=sample_rate,
        channels=_channels(given, most_channels),
        model=given.model(),
        language=given.language(),
        context=given.context(),
        partials=given.flag("interim_results"),
        silence=silence_ms,
        vad_events=given.flag("vad_events"),
        speech_final=speech_final,
        utterance_end_ms=given.number("utterance_end_ms", MIN_SILENCE_MS, MAX_SILENCE_MS),
        words=word_times(given.one("word_times")),
        warnings=given.all_warnings,
    )


def audio_form(given: Given) -> tuple[str, int]:
    """Return the encoding, one of `audio.pcm.ENCODINGS`, and the rate in Hz. Raises BadRequest."""
    encoding = given.one("encoding")
    if encoding is None:
        raise UnsupportedValue(
            f"encoding is missing: audio in a container is not supported here; "
            f"send samples and name their encoding ({', '.join(ENCODINGS)})",
            "encoding",
        )
    if encoding not in ENCODINGS:
        raise wrong("encoding", encoding, f"one of {', '.join(ENCODINGS)}")
    rate = given.number("sample_rate", MIN_RATE, MAX_RATE)
    if rate is None and encoding == "linear16":
        raise UnsupportedValue("sample_rate is missing; linear16 needs it, in Hz", "sample_rate")
    return ENCODINGS[encoding], rate or _G711_RATE


def _channels(given: Given, most: int) -> int:
    channels, apart = given.number("channels", 1, most) or 1, given.flag("multichannel")
    if channels > 1 and not apart:
        raise UnsupportedValue(
            f"channels={channels} needs multichannel=true: channels are not mixed here", "channels"
        )
    return channels


def _endpointing(given: Given) -> tuple[int | None, bool]:
    """Return the silence that ends speech, None for the server's, and whether results say so."""
    value = given.one("endpointing")
    if value is None or value.lower() in ("true", "false"):
        return None, value is None or value.lower() == "true"
    number = whole(value)
    if number is None or number > MAX_SILENCE_MS:
        raise wrong("endpointing", value, f"false or milliseconds, at most {MAX_SILENCE_MS}")
    if number < MIN_SILENCE_MS:
        given.warnings.append(
            f"endpointing={number} is too short: speech ends after {MIN_SILENCE_MS} ms of silence"
        )
    return max(number, MIN_SILENCE_MS), True
