"""What Riva's clients ask for in a RecognitionConfig. No I/O.

What changes the text is honoured or refused. What does not is taken, and the call's metadata says
that it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.audio.wav import WavHeader
from auricle.errors import UnsupportedValue
from auricle.frontend.line.word_times import WordTimes, word_times
from auricle.live_settings import MAX_SILENCE_MS, MIN_SILENCE_MS
from auricle.quoting import quoted
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL, check

# Numbers of the enum AudioEncoding: samples, and what a container or a header says.
_SAMPLES = {1: "pcm_s16le", 3: "pcm_mulaw", 20: "pcm_alaw"}
_UNSPECIFIED, _FLAC, _OGGOPUS = 0, 2, 4
_NAMES = {_FLAC: "FLAC", _OGGOPUS: "OGGOPUS"}
_LIVE = "LINEAR_PCM, MULAW or ALAW, or unspecified for audio with a WAV header"
_RECORDED = "LINEAR_PCM, MULAW, ALAW, FLAC or OGGOPUS, or unspecified for a file of any format"
_G711_RATE = 8_000
_REFUSED = {
    "profanity_filter": "the model writes what is said",
    "enable_separate_recognition_per_channel": "make a call for each channel",
}
# They ask for what the model does or does not do by itself, or for what it does not know.
_ADVISORY = ("enable_automatic_punctuation", "verbatim_transcripts")
_WORD_TIMES = "word_times"  # of custom_configuration, for live audio
_ADVISORY_ENDPOINTING = (
    *("start_history", "start_threshold", "stop_threshold"),
    *("stop_history_eou", "stop_threshold_eou"),
)


@dataclass(frozen=True)
class RecognitionOptions:
    """`encoding` is one of `audio.pcm.ENCODINGS`, None if the audio says it itself.

    `sample_rate` is in Hz, None if it is not stated; 0 `channels` neither. Without `silence_ms`
    the server's endpointing applies. `word_offsets`: final text has words, with the times that
    `words` says. `warnings` are sentences on what has no effect.
    """

    encoding: str | None
    sample_rate: int | None = None
    channels: int = 0
    model: str | None = None
    language: str | None = None
    context: str = ""
    silence_ms: int | None = None
    word_offsets: bool = False
    words: WordTimes = "grid"
    warnings: tuple[str, ...] = ()


def parse_config(config: Any, *, streaming: bool) -> RecognitionOptions:
    """Return the options of a RecognitionConfig. Raises UnsupportedValue, naming the field."""
    warnings: list[str] = []
    for field, instead in _REFUSED.items():
        if getattr(config, field):
            raise UnsupportedValue(f"{field} is not supported: {instead}", field)
    custom = dict(config.custom_configuration)
    words = word_times(custom.pop(_WORD_TIMES, None) if streaming else None)
    refuse_names("custom_configuration", custom)
    check("model", config.model, MODEL)
    context = _context(config.speech_contexts, warnings)
    silence_ms = _silence(config.endpointing_config, warnings)
    warnings += [f"{field} has no effect" for field in _ADVISORY if getattr(config, field)]
    if config.diarization_config.enable_speaker_diarization:
        warnings.append("diarization_config has no effect")
    return RecognitionOptions(
        _encoding(config.encoding, streaming=streaming),
        _rate(config.sample_rate_hertz),
        config.audio_channel_count,
        config.model or None,
        _language(config.language_code),
        context,
        silence_ms,
        config.enable_word_time_offsets,
        words,
        tuple(warnings),
    )


def audio_format(options: RecognitionOptions, header: WavHeader | None) -> tuple[str, int]:
    """Return encoding and sample rate of samples, of which a WAV header may say more.

    Raises UnsupportedValue if that is not known, or not what was asked for.
    """
    if header is not None:
        _agree("encoding", options.encoding, header.encoding)
        _agree("sample_rate_hertz", options.sample_rate, header.sample_rate)
        return header.encoding, header.sample_rate
    if options.encoding is None:
        raise UnsupportedValue(
            f"encoding is not specified, and the audio has no WAV header; it must be {_LIVE}",
            "encoding",
        )
    if options.channels not in (0, 1):
        raise UnsupportedValue(
            f"audio_channel_count {options.channels} cannot be used: it must be 1; "
            "make a call for each channel",
            "audio_channel_count",
        )
    if options.sample_rate is None and options.encoding == "pcm_s16le":
        raise UnsupportedValue(
            "sample_rate_hertz is missing; LINEAR_PCM without a WAV header needs it",
            "sample_rate_hertz",
        )
    return options.encoding, options.sample_rate or _G711_RATE


def refuse_names(field: str, names: Iterable[str]) -> None:
    """Raise UnsupportedValue if there are any names, of which `field` supports none."""
    for name in names:
        raise UnsupportedValue(f"{field} {quoted(name)} is not supported; none is", field)


def _encoding(number: int, *, streaming: bool) -> str | None:
    if number in _SAMPLES:
        return _SAMPLES[number]
    if number == _UNSPECIFIED or (number in _NAMES and not streaming):
        return None
    right = _LIVE if streaming else _RECORDED
    raise UnsupportedValue(
        f"encoding {_NAMES.get(number, number)} cannot be used: it must be {right}", "encoding"
    )


def _rate(rate: int) -> int | None:
    if rate and not MIN_RATE <= rate <= MAX_RATE:
        raise UnsupportedValue(
            f"sample_rate_hertz {rate} cannot be used: it must be from {MIN_RATE} to {MAX_RATE}",
            "sample_rate_hertz",
        )
    return rate or None


def _agree(field: str, stated: object, found: object) -> None:
    if stated is not None and stated != found:
        raise UnsupportedValue(f"{field} is {stated}, but the WAV header says {found}", field)


def _language(code: str) -> str | None:
    """Return the language without its region; None to detect it."""
    check("language_code", code, LANGUAGE)
    return None if code in ("", "multi") else code.partition("-")[0]


def _context(contexts: Any, warnings: list[str]) -> str:
    """Return the phrases that the client expects, as context for the model."""
    phrases: list[str] = []
    for given in contexts:
        phrases += given.phrases
        if not given.boost >= 0:  # or not a number
            raise UnsupportedValue(
                "speech_contexts cannot have a negative boost: phrases cannot be made less likely",
                "speech_contexts",
            )
    if any(given.boost for given in contexts):
        warnings.append("boost has no effect: all phrases are context alike")
    context = ", ".join(phrases)
    check("speech_contexts", context, CONTEXT)
    return context


def _silence(endpointing: Any, warnings: list[str]) -> int | None:
    """Return the silence in ms that ends speech, None for the server's."""
    for field in _ADVISORY_ENDPOINTING:
        if endpointing.HasField(field):
            warnings.append(f"endpointing_config.{field} has no effect")
    if not endpointing.HasField("stop_history"):
        return None
    silence = int(endpointing.stop_history)
    if not 0 <= silence <= MAX_SILENCE_MS:
        raise UnsupportedValue(
            f"endpointing_config.stop_history {silence} cannot be used: it must be milliseconds, "
            f"at most {MAX_SILENCE_MS}",
            "endpointing_config.stop_history",
        )
    if silence < MIN_SILENCE_MS:
        warnings.append(
            f"endpointing_config.stop_history {silence} is too short: "
            f"speech ends after {MIN_SILENCE_MS} ms of silence"
        )
    return max(silence, MIN_SILENCE_MS)
