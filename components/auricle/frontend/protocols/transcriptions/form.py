"""Parses and validates the form fields of a transcription request. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from auricle.audio.findings import OnDamage
from auricle.config.settings import FrontendSettings
from auricle.core.errors import UnsupportedValue
from auricle.core.sanitize import escaped
from auricle.frontend.audio.endpointing import EndpointingOptions, ServerVadFields
from auricle.frontend.transport.options import LENIENT_SWITCHES, MaxSpeakers, Model, read
from auricle.frontend.transport.transcription_options import TranscriptionOptions

ResponseFormat = Literal["json", "text", "verbose_json", "diarized_json", "srt", "vtt"]
# Clients send a list as a field that comes again, with brackets; several have it without.
LISTS = ("timestamp_granularities", "keywords", "languages", "include")
_LISTS = {name + brackets: name for name in LISTS for brackets in ("[]", "")}
_WITH_LOGPROBS = ("json", "verbose_json")
_WITH_WORDS = ("verbose_json", "diarized_json")
_UNNAMED = "voices have no names; speakers are A, B, … in the order in which they speak"
_REFUSED = {"known_speaker_names": _UNNAMED, "known_speaker_references": _UNNAMED}


class ChunkingStrategy(ServerVadFields, frozen=True, kw_only=True):
    """Endpointing. With `none`, an extension of OpenAI's API, all audio counts as speech."""

    type: Literal["auto", "server_vad", "none"] = "auto"

    def for_recordings(self, settings: FrontendSettings) -> EndpointingOptions | None:
        """Return the options in effect for a recording; None to decode all audio."""
        return EndpointingOptions.chosen(
            settings,
            enabled={"none": False, "auto": None}.get(self.type, True),
            threshold=self.threshold,
            min_silence_ms=self.silence_duration_ms,
            pre_roll_ms=self.prefix_padding_ms,
            recorded=True,
        )


class TranscriptionForm(TranscriptionOptions, frozen=True, kw_only=True):
    """All fields except `file`.

    Fields that change the text are honoured or refused; `warnings` names those without effect.
    `task` and `chunk` are the values of these fields in the answer; vLLM names the latter.
    """

    task: ClassVar[str] = "transcribe"
    chunk: ClassVar[str] = "transcription.chunk"
    model: Model
    include: Annotated[tuple[Literal["logprobs"], ...], Meta(max_length=1)] = ()
    response_format: ResponseFormat = "json"
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0
    stream: bool = False
    timestamp_granularities: tuple[Literal["segment", "word"], ...] = ()
    speakers: bool = False
    max_speakers: MaxSpeakers | None = None
    max_line_characters: Annotated[int, Meta(ge=10, le=500)] | None = None
    chunking_strategy: ChunkingStrategy = ChunkingStrategy()
    stream_include_usage: bool | None = None
    stream_continuous_usage_stats: bool | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    on_damage: OnDamage = "reject"

    @property
    def wants_logprobs(self) -> bool:
        """Whether the answer has log probabilities: not all formats have a field for them."""
        room = not self.wants_chunks if self.stream else self.response_format in _WITH_LOGPROBS
        return bool(self.include) and room

    @property
    def needs_logprobs(self) -> bool:
        """Whether the answer has log probabilities, of tokens or as means of segments."""
        verbose = self.response_format == "verbose_json" and not self.stream
        return self.wants_logprobs or verbose

    @property
    def wants_words(self) -> bool:
        """Whether the answer has the times of words, or is cut at words."""
        if self.stream:
            return False
        timed = "word" in self.timestamp_granularities and self.response_format in _WITH_WORDS
        return timed or self.line_characters is not None

    @property
    def wants_speakers(self) -> bool:
        """Whether the answer has the text by speaker: of a stream, only in OpenAI's events."""
        if self.response_format == "diarized_json":
            return not (self.stream and self.wants_chunks)
        return self.speakers and self.response_format == "verbose_json" and not self.stream

    @property
    def line_characters(self) -> int | None:
        """The longest line of a subtitle; None in other formats, and for one subtitle a segment."""
        return self.max_line_characters if self.response_format in ("srt", "vtt") else None

    @property
    def speakers_asked_by(self) -> str:
        return "speakers" if self.speakers else "response_format"

    @property
    def words_asked_by(self) -> str:
        return "timestamp_granularities" if self.line_characters is None else "max_line_characters"

    @property
    def wants_chunks(self) -> bool:
        """Whether a stream consists of vLLM's chunks: only its clients send this field."""
        return self.stream_include_usage is not None

    @property
    def warnings(self) -> list[str]:
        found = self.without_effect
        if self.temperature:
            found.append("temperature has no effect: decoding is greedy")
        if self.include and not self.wants_logprobs:
            found.append("include has no effect: this format has no room for log probabilities")
        if "word" in self.timestamp_granularities and not self.wants_words:
            formats = " and ".join(_WITH_WORDS)
            found.append(f"timestamp_granularities has no effect: words come with {formats}")
        if self.response_format == "diarized_json" and not self.wants_speakers:
            found.append("response_format has no effect: a stream of chunks has no speakers")
        if self.speakers and not self.wants_speakers:
            found.append("speakers has no effect: they come with verbose_json and diarized_json")
        if self.max_speakers is not None and not self.wants_speakers:
            found.append("max_speakers has no effect: the answer has no speakers")
        if self.max_line_characters is not None and not self.wants_words:
            found.append("max_line_characters has no effect: only srt and vtt have lines")
        if self.stream_continuous_usage_stats:
            found.append("stream_continuous_usage_stats has no effect")
        if self.max_completion_tokens is not None:
            found.append("max_completion_tokens has no effect: the server bounds every part")
        return found

    def check(self) -> None:
        """Raise UnsupportedValue if fields contradict one another, or together are too long."""
        _ = self.context, self.spoken


F = TypeVar("F", bound=TranscriptionForm)


def parse_form(fields: Iterable[tuple[str, str]]) -> TranscriptionForm:
    """Parse the fields of a transcription; see `parse_as`."""
    return parse_as(fields, TranscriptionForm)


def parse_as(fields: Iterable[tuple[str, str]], kind: type[F]) -> F:
    """Parse and check the fields of a kind of request.

    Raises UnsupportedValue, which names the field and its valid values.
    """
    form = read(kind, _nested(fields), switches=LENIENT_SWITCHES)
    form.check()
    return form


def _nested(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Turn `a[b]=c`, or a JSON object as `a`, into {"a": {"b": "c"}}, and `a[]` into a list.

    Empty fields are left out.
    """
    values: dict[str, Any] = {}
    for name, value in fields:
        if not value:
            continue
        if (plain := name.removesuffix("[]")) in _REFUSED:
            raise UnsupportedValue(f"{plain} is not supported: {_REFUSED[plain]}", plain)
        if name in _LISTS:
            values.setdefault(_LISTS[name], []).append(value)
            continue
        outer, bracket, inner = name.partition("[")
        if bracket and inner.endswith("]"):
            inside = values.setdefault(outer, {})
            if not isinstance(inside, dict) or inner[:-1] in inside:
                raise _twice(outer)
            inside[inner[:-1]] = value
        elif name in values:
            raise _twice(name)
        else:
            values[name] = value
    if isinstance(strategy := values.get("chunking_strategy"), str):
        values["chunking_strategy"] = _strategy(strategy)
    return values


def _twice(name: str) -> UnsupportedValue:
    return UnsupportedValue(f"{escaped(name)} was sent twice", escaped(name))


def _strategy(text: str) -> Any:
    """Parse `auto`, `none`, or a JSON object; other text is returned unchanged."""
    if not text.lstrip().startswith("{"):
        return {"type": text}
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text)
    return text
