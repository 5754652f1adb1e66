"""The options of a request, which Deepgram's clients send as the URL's query. No I/O.

Options that change the text are honoured or refused. Others are accepted, and the answer's
`warnings` name them as having no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from auricle.audio.findings import OnDamage
from auricle.checkpoints.languages import spoken_language
from auricle.config.frontend import MAX_SILENCE_MS, SilenceMs
from auricle.core.errors import UnsupportedValue
from auricle.core.limits import query_pairs
from auricle.core.sanitize import quoted
from auricle.frontend.link.words import WordTimes
from auricle.frontend.session.adapter import AudioOptions
from auricle.frontend.transport.options import (
    SWITCHES,
    Language,
    Model,
    Others,
    SampleRate,
    context_of,
    gathered,
    least_silence,
    one_of,
    read_query,
    switched_off,
    whole,
    wrong,
)

T = TypeVar("T", bound=msgspec.Struct)
ENCODINGS = {"linear16": "pcm_s16le", "mulaw": "pcm_mulaw", "alaw": "pcm_alaw"}
Encoding = Annotated[str, one_of(ENCODINGS)]
_G711_RATE = 8_000
_VERBATIM = "the model transcribes verbatim"
# Options for text that this server does not produce; they may be switched off.
REFUSED: Mapping[str, str] = {
    "callback": "results are the answer to the request, or of a job (Prefer: respond-async)",
    "dictation": _VERBATIM,
    "measurements": _VERBATIM,
    "numerals": "the model writes numbers as it learnt to",
    "profanity_filter": _VERBATIM,
    "redact": _VERBATIM,
    "replace": _VERBATIM,
}
# Options that the model decides by itself, or that do not change the text.
ADVISORY = (
    *("punctuate", "smart_format", "filler_words", "paragraphs", "utterances", "language_hint"),
    *("diarize_version", "detect_entities", "search"),
    *("no_delay", "callback_method", "mip_opt_out", "tag", "extra", "version", "tier"),
)
REPEATED = ("keyterm", "keywords", "language_hint", "redact", "replace", "search", "tag", "extra")
_LIVE = Others({**REFUSED, "callback": "results are sent on the connection"}, ADVISORY, REPEATED)


class DeepgramOptions(msgspec.Struct, frozen=True, kw_only=True):
    model: Model | None = None
    keyterm: tuple[str, ...] = ()
    alternatives: str = "1"
    language: Language | None = None
    detect_language: bool = False
    keywords: tuple[str, ...] = ()
    multichannel: bool = False
    diarize: bool = False
    diarize_model: str = ""

    def speakers(self, warnings: list[str]) -> bool:
        """Whether speakers are requested; `diarize_model` does it, too."""
        named = self.diarize_model
        if switched_off(named):
            return self.diarize
        if named.lower() != "latest":
            warnings.append(f"diarize_model {quoted(named)} has no effect: there is one model")
        return True

    def forced(self) -> str | None:
        """Return the language; None to detect it. Raises UnsupportedValue."""
        if self.alternatives.lower() not in ("1", "", "false"):
            raise UnsupportedValue(
                "alternatives is not supported: there is one transcript", "alternatives"
            )
        return None if self.detect_language else spoken_language(self.language)

    def context(self, warnings: list[str]) -> str:
        """Return the client's terms as context for the model. Raises UnsupportedValue."""
        words = []
        for keyword in self.keywords:
            word, colon, weight = keyword.rpartition(":")
            weighted = bool(colon) and _is_weight(weight)
            if weighted and weight.startswith("-"):
                raise UnsupportedValue(
                    f"keywords {quoted(keyword)} cannot be used: words cannot be made less likely",
                    "keywords",
                )
            words.append(word if weighted else keyword)
        if words != list(self.keywords):
            warnings.append("weights of keywords have no effect: all are context alike")
        return terms_of((*self.keyterm, *words))


class _Listen(DeepgramOptions, frozen=True, kw_only=True):
    encoding: Encoding | None = None
    sample_rate: SampleRate | None = None
    channels: int = 1
    interim_results: bool = False
    vad_events: bool = False
    endpointing: str = "true"
    utterance_end_ms: SilenceMs | None = None
    word_times: WordTimes = "grid"


@dataclass(frozen=True, kw_only=True)
class ListenOptions(AudioOptions):
    """The options of `WS /v1/listen`. `speech_final`: results mark where speech ended."""

    vad_events: bool = False
    speech_final: bool = True
    utterance_end_ms: int | None = None


def read_options(query: str, table: type[T], others: Others) -> tuple[T, list[str]]:
    """Return a query's options, and warnings on those without effect. Raises BadRequest."""
    return read_query(table, gathered(query_pairs(query), others.repeated), others)


def audio_form(encoding: str | None, sample_rate: int | None) -> tuple[str, int]:
    """Return the encoding, one of `audio.pcm.ENCODINGS`, and the rate in Hz.

    Raises UnsupportedValue.
    """
    if encoding is None:
        raise UnsupportedValue(
            "encoding is missing: audio in a container, such as WebM, Ogg or WAV, is not supported "
            f"on live connections; send samples and name their encoding ({', '.join(ENCODINGS)})",
            "encoding",
        )
    if sample_rate is None and encoding == "linear16":
        raise UnsupportedValue("sample_rate is missing; linear16 needs it, in Hz", "sample_rate")
    return ENCODINGS[encoding], sample_rate or _G711_RATE


def terms_of(terms: Iterable[str]) -> str:
    """Return the client's terms as context for the model. Raises UnsupportedValue."""
    return context_of("keyterm and keywords", terms)


def parse_options(query: str, most_channels: int = 1) -> ListenOptions:
    """Parse the query string. Raises BadRequest, which names the option and its valid values.

    A client may have `most_channels` transcribed separately.
    """
    given, idle = read_options(query, _Listen, _LIVE)
    encoding, sample_rate = audio_form(given.encoding, given.sample_rate)
    warnings: list[str] = []
    silence_ms, speech_final = _endpointing(given.endpointing, warnings)
    return ListenOptions(
        encoding=encoding,
        sample_rate=sample_rate,
        channels=_channels(given, most_channels),
        model=given.model,
        language=given.forced(),
        context=given.context(warnings),
        partials=given.interim_results,
        silence=silence_ms,
        vad_events=given.vad_events,
        speech_final=speech_final,
        utterance_end_ms=given.utterance_end_ms,
        words=given.word_times,
        diarize=given.speakers(warnings),
        warnings=(*warnings, *idle),
    )


def _channels(given: _Listen, most: int) -> int:
    channels = given.channels
    if not 1 <= channels <= most:
        raise wrong("channels", channels, f"a whole number from 1 to {most}")
    if channels > 1 and not given.multichannel:
        raise UnsupportedValue(
            f"channels={channels} needs multichannel=true: channels are not mixed here", "channels"
        )
    return channels


def _endpointing(value: str, warnings: list[str]) -> tuple[int | None, bool]:
    """Return the silence that ends speech, None for the server's, and whether results mark it."""
    if (switch := SWITCHES.get(value.lower())) is not None:
        return None, switch
    number = whole(value)
    if number is None or number > MAX_SILENCE_MS:
        raise wrong("endpointing", value, f"false or milliseconds, at most {MAX_SILENCE_MS}")
    return least_silence("endpointing", number, warnings), True


def _is_weight(text: str) -> bool:
    number = text.removeprefix("-").replace(".", "", 1)
    return number.isascii() and number.isdigit()


# The options of a recording, on `POST /v1/listen`.

_IN_HEADER = "a recording has it in its header; send WAV, FLAC, MP3 or another common format"
_OTHERS = Others(
    {**REFUSED, **dict.fromkeys(("encoding", "sample_rate", "channels"), _IN_HEADER)},
    (
        *ADVISORY,
        *("utt_split", "summarize", "sentiment", "topics", "custom_topic", "custom_topic_mode"),
        *("intents", "custom_intent", "custom_intent_mode"),
    ),
    (*REPEATED, "custom_topic", "custom_intent"),
)


class _Given(DeepgramOptions, frozen=True, kw_only=True):
    utterances: bool = False
    on_damage: OnDamage = "reject"


@dataclass(frozen=True)
class RecordingOptions:
    """The options of `POST /v1/listen`.

    `says_language`: the answer names the language that was detected. `utterances`: it also has each
    segment separately. `multichannel`: each channel has a transcript of its own. `diarize`: the
    answer names speakers. `keep_damaged`: a damaged recording is transcribed as far as possible.
    """

    model: str | None = None
    language: str | None = None
    says_language: bool = False
    context: str = ""
    utterances: bool = False
    multichannel: bool = False
    diarize: bool = False
    keep_damaged: bool = False
    warnings: tuple[str, ...] = ()


def parse_recording_options(query: str) -> RecordingOptions:
    """Parse the query string. Raises BadRequest, which names the option and its valid values."""
    given, idle = read_options(query, _Given, _OTHERS)
    warnings: list[str] = []
    context = given.context(warnings)
    diarize = given.speakers(warnings)
    return RecordingOptions(
        given.model,
        given.forced(),
        given.detect_language,
        context,
        given.utterances,
        given.multichannel,
        diarize,
        given.on_damage == "keep",
        (*warnings, *idle),
    )
