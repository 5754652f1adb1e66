"""The options of a RecognitionConfig. No I/O.

Options that change the text are honoured or refused. Others are accepted, and the call's metadata
names them as having no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from auricle.audio.wav import WavHeader
from auricle.checkpoints.languages import spoken_language
from auricle.config.frontend import MAX_SILENCE_MS
from auricle.core.errors import UnsupportedValue
from auricle.core.sanitize import quoted
from auricle.frontend.link.words import WordTimes
from auricle.frontend.transport.options import (
    Language,
    MaxSpeakers,
    Model,
    SampleRate,
    context_of,
    least_silence,
    read,
)

# Numbers of the enum AudioEncoding: samples, and formats with a header.
_SAMPLES = {1: "pcm_s16le", 3: "pcm_mulaw", 20: "pcm_alaw"}
_UNSPECIFIED, _FLAC, _OGGOPUS = 0, 2, 4
_NAMES = {_FLAC: "FLAC", _OGGOPUS: "OGGOPUS"}
_LIVE = "LINEAR_PCM, MULAW or ALAW, or unspecified for audio with a WAV header"
_RECORDED = "LINEAR_PCM, MULAW, ALAW, FLAC or OGGOPUS, or unspecified for a file of any format"
_G711_RATE = 8_000
_REFUSED = {
    "profanity_filter": "the model transcribes verbatim",
    "enable_separate_recognition_per_channel": "make a call for each channel",
}
# Options that the model decides by itself.
_ADVISORY = ("enable_automatic_punctuation", "verbatim_transcripts")
_WORD_TIMES = "word_times"  # of custom_configuration, for live audio
_STOP_HISTORY = "endpointing_config.stop_history"
_ADVISORY_ENDPOINTING = (
    *("start_history", "start_threshold", "stop_threshold"),
    *("stop_history_eou", "stop_threshold_eou"),
)


class _Endpointing(msgspec.Struct, frozen=True):
    stop_history: Annotated[int, Meta(ge=0, le=MAX_SILENCE_MS)] | None = None  # ms


class _Diarization(msgspec.Struct, frozen=True):
    enable_speaker_diarization: bool = False
    max_speaker_count: MaxSpeakers | None = None


class _Given(msgspec.Struct, frozen=True):
    model: Model | None = None
    language_code: Language | None = None
    sample_rate_hertz: SampleRate | None = None
    endpointing_config: _Endpointing = _Endpointing()
    diarization_config: _Diarization = _Diarization()
    word_times: WordTimes = "grid"


@dataclass(frozen=True)
class RecognitionOptions:
    """`encoding` is one of `audio.pcm.ENCODINGS`, None for audio with a header.

    `sample_rate` (Hz) is None and `channels` 0 if the client does not state them. Without
    `silence_ms` the server's endpointing applies. `word_offsets`: final text has words; `words`
    selects the source of their times. With `diarize` these words have their speakers, at most
    `max_speakers`. `warnings` are sentences about fields without effect.
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
    diarize: bool = False
    max_speakers: int | None = None


def parse_config(config: Any, *, streaming: bool) -> RecognitionOptions:
    """Return the options of a RecognitionConfig. Raises UnsupportedValue, naming the field."""
    warnings: list[str] = []
    fields, ends = _fields(config), _fields(config.endpointing_config)
    for name in _REFUSED.keys() & fields.keys():
        raise UnsupportedValue(f"{name} is not supported: {_REFUSED[name]}", name)
    custom = dict(config.custom_configuration)
    words = {_WORD_TIMES: custom.pop(_WORD_TIMES)} if streaming and _WORD_TIMES in custom else {}
    voices = _fields(config.diarization_config)
    nested = {"endpointing_config": ends, "diarization_config": voices}
    given = read(_Given, {**fields, **nested, **words})
    refuse_names("custom_configuration", custom)
    context = _context(config.speech_contexts, warnings)
    idle = [f"endpointing_config.{name}" for name in _ADVISORY_ENDPOINTING if name in ends]
    idle += [name for name in _ADVISORY if name in fields]
    silence_ms = given.endpointing_config.stop_history
    if silence_ms is not None:
        silence_ms = least_silence(_STOP_HISTORY, silence_ms, warnings)
    diarization = given.diarization_config
    diarize = diarization.enable_speaker_diarization
    if diarize and not streaming:
        idle.append("diarization_config")
    return RecognitionOptions(
        _encoding(config.encoding, streaming=streaming),
        given.sample_rate_hertz,
        config.audio_channel_count,
        given.model,
        spoken_language(given.language_code),
        context,
        silence_ms,
        config.enable_word_time_offsets,
        given.word_times,
        (*warnings, *(f"{name} has no effect" for name in idle)),
        diarize and streaming,
        diarization.max_speaker_count,
    )


def audio_format(options: RecognitionOptions, header: WavHeader | None) -> tuple[str, int]:
    """Return encoding and sample rate of samples, from the options or a WAV header.

    Raises UnsupportedValue if they are not known, or the options contradict the header.
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
    """Raise UnsupportedValue if there are any names: `field` supports none."""
    for name in names:
        raise UnsupportedValue(f"{field} {quoted(name)} is not supported; none is", field)


def _fields(message: Any) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields()}


def _encoding(number: int, *, streaming: bool) -> str | None:
    if number in _SAMPLES:
        return _SAMPLES[number]
    if number == _UNSPECIFIED or (number in _NAMES and not streaming):
        return None
    right = _LIVE if streaming else _RECORDED
    raise UnsupportedValue(
        f"encoding {_NAMES.get(number, number)} cannot be used: it must be {right}", "encoding"
    )


def _agree(field: str, stated: object, found: object) -> None:
    if stated is not None and stated != found:
        raise UnsupportedValue(f"{field} is {stated}, but {found} in the WAV header", field)


def _context(contexts: Any, warnings: list[str]) -> str:
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
    return context_of("speech_contexts", phrases)
