"""The options of a live session, which Deepgram's clients send as the URL's query. No I/O.

What changes the text is honoured or refused. What does not is taken, and `Metadata` says at the
session's end that it had no effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.errors import UnsupportedValue
from auricle.quoting import escaped, quoted
from auricle.settings import MAX_SILENCE_MS, MIN_SILENCE_MS
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL, check, query_pairs

ENCODINGS = {"linear16": "pcm_s16le", "mulaw": "pcm_mulaw", "alaw": "pcm_alaw"}
_G711_RATE = 8_000
# Options that may be switched off. What they would add or write is not to be had here.
_REFUSED = {
    "alternatives": "there is one transcript",
    "callback": "results are sent on the connection",
    "dictation": "the model writes what is said",
    "measurements": "the model writes what is said",
    "multichannel": "open a connection for each channel, with channels=1",
    "numerals": "the model writes numbers as it learnt to",
    "profanity_filter": "the model writes what is said",
    "redact": "the model writes what is said",
    "replace": "the model writes what is said",
}
_OFF = {"alternatives": ("1",)}
# They ask for what the model does or does not do by itself, or are not about the text.
_ADVISORY = (
    *("punctuate", "smart_format", "filler_words", "paragraphs", "utterances", "language_hint"),
    *("diarize", "diarize_model", "detect_entities", "search"),
    *("no_delay", "callback_method", "mip_opt_out", "tag", "extra", "version", "tier"),
)
_HONOURED = (
    *("encoding", "sample_rate", "channels", "model", "language", "detect_language"),
    *("interim_results", "vad_events", "endpointing", "utterance_end_ms", "keyterm", "keywords"),
)
_REPEATED = frozenset(
    ("keyterm", "keywords", "language_hint", "redact", "replace", "search", "tag", "extra")
)
_KNOWN = frozenset((*_REFUSED, *_ADVISORY, *_HONOURED))


@dataclass(frozen=True)
class ListenOptions:
    """What was asked for; `encoding` is one of `audio.pcm.ENCODINGS`, `sample_rate` is in Hz.

    Without `silence_ms` the server's endpointing applies. `speech_final`: results say where speech
    ended. `warnings` are sentences on what has no effect.
    """

    encoding: str
    sample_rate: int
    model: str | None = None
    language: str | None = None
    context: str = ""
    interim_results: bool = False
    vad_events: bool = False
    silence_ms: int | None = None
    speech_final: bool = True
    utterance_end_ms: int | None = None
    warnings: tuple[str, ...] = ()


def parse_options(query: str) -> ListenOptions:
    """Parse the query string. Raises BadRequest, naming the option and what would be right."""
    given = _Given(query)
    encoding, sample_rate = _audio(given)
    if (channels := given.one("channels")) not in (None, "1"):
        raise _wrong("channels", channels, "1; open a connection for each channel")
    for name, instead in _REFUSED.items():
        if not given.off(name, _OFF.get(name, ())):
            raise UnsupportedValue(f"{name} is not supported: {instead}", name)
    silence_ms, speech_final = _endpointing(given)
    model = given.one("model")
    check("model", model, MODEL)
    return ListenOptions(
        encoding,
        sample_rate,
        model,
        _language(given),
        _context(given),
        given.flag("interim_results"),
        given.flag("vad_events"),
        silence_ms,
        speech_final,
        given.number("utterance_end_ms", MIN_SILENCE_MS, MAX_SILENCE_MS),
        (*given.warnings, *(f"{n} has no effect" for n in _ADVISORY if not given.off(n))),
    )


class _Given:
    """The options of one query, and warnings about them."""

    def __init__(self, query: str) -> None:
        values: dict[str, list[str]] = defaultdict(list)
        for name, value in query_pairs(query):
            values[name].append(value)
        for name, several in values.items():
            if name not in _KNOWN:
                known = ", ".join(sorted(_KNOWN - _REFUSED.keys()))
                raise UnsupportedValue(
                    f"{escaped(name)} is not supported; supported: {known}", escaped(name)
                )
            if len(several) > 1 and name not in _REPEATED:
                raise UnsupportedValue(f"{name} was given {len(several)} times", name)
        self._values: Mapping[str, Sequence[str]] = values
        self.warnings: list[str] = []

    def all(self, name: str) -> Sequence[str]:
        return self._values.get(name, ())

    def one(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    def off(self, name: str, values: Sequence[str] = ()) -> bool:
        return all(value.lower() in ("", "false", *values) for value in self.all(name))

    def flag(self, name: str) -> bool:
        value = self.one(name)
        # Python's clients write `True`.
        if value is not None and value.lower() not in ("true", "false"):
            raise _wrong(name, value, "true or false")
        return value is not None and value.lower() == "true"

    def number(self, name: str, low: int, high: int) -> int | None:
        value = self.one(name)
        if value is None:
            return None
        number = _whole(value)
        if number is None or not low <= number <= high:
            raise _wrong(name, value, f"a whole number from {low} to {high}")
        return number


def _audio(given: _Given) -> tuple[str, int]:
    encoding = given.one("encoding")
    if encoding is None:
        raise UnsupportedValue(
            f"encoding is missing: audio in a container is not supported here; "
            f"send samples and name their encoding ({', '.join(ENCODINGS)})",
            "encoding",
        )
    if encoding not in ENCODINGS:
        raise _wrong("encoding", encoding, f"one of {', '.join(ENCODINGS)}")
    rate = given.number("sample_rate", MIN_RATE, MAX_RATE)
    if rate is None and encoding == "linear16":
        raise UnsupportedValue("sample_rate is missing; linear16 needs it, in Hz", "sample_rate")
    return ENCODINGS[encoding], rate or _G711_RATE


def _language(given: _Given) -> str | None:
    """Return the language without its region; None to detect it."""
    language = given.one("language")
    check("language", language, LANGUAGE)
    if given.flag("detect_language") or language in (None, "", "multi"):
        return None
    return language.split("-")[0]


def _endpointing(given: _Given) -> tuple[int | None, bool]:
    """Return the silence that ends speech, None for the server's, and whether results say so."""
    value = given.one("endpointing")
    if value is None or value.lower() in ("true", "false"):
        return None, value is None or value.lower() == "true"
    number = _whole(value)
    if number is None or number > MAX_SILENCE_MS:
        raise _wrong("endpointing", value, f"false or milliseconds, at most {MAX_SILENCE_MS}")
    if number < MIN_SILENCE_MS:
        given.warnings.append(
            f"endpointing={number} is too short: speech ends after {MIN_SILENCE_MS} ms of silence"
        )
    return max(number, MIN_SILENCE_MS), True


def _context(given: _Given) -> str:
    """Return the terms that the client expects, as context for the model."""
    terms = list(given.all("keyterm"))
    for keyword in given.all("keywords"):
        word, colon, weight = keyword.rpartition(":")
        if not colon or not _is_weight(weight):
            terms.append(keyword)
            continue
        if weight.startswith("-"):
            raise UnsupportedValue(
                f"keywords {quoted(keyword)} cannot be used: words cannot be made less likely",
                "keywords",
            )
        terms.append(word)
        if not given.warnings or "weights" not in given.warnings[-1]:
            given.warnings.append("weights of keywords have no effect: all are context alike")
    context = ", ".join(terms)
    check("keyterm and keywords", context, CONTEXT)
    return context


def _is_weight(text: str) -> bool:
    number = text.removeprefix("-").replace(".", "", 1)
    return number.isascii() and number.isdigit()


def _whole(text: str) -> int | None:
    # Bounded, as Python reads a number of many digits slowly.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _wrong(name: str, value: str | None, right: str) -> UnsupportedValue:
    return UnsupportedValue(f"{name} {quoted(value)} cannot be used: it must be {right}", name)
