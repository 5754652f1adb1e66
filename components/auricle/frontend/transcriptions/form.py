"""Parses and validates the form fields of a transcription request. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from auricle.errors import UnsupportedValue
from auricle.frontend.doors.field_errors import bounded, form_fault
from auricle.frontend.doors.hints import Hints
from auricle.frontend.listening.server_vad import ServerVadFields
from auricle.quoting import escaped
from auricle.text_bounds import MODEL

ResponseFormat = Literal["json", "text", "verbose_json", "diarized_json", "srt", "vtt"]
# Clients send a list as a field that comes again, with brackets; several have it without.
LISTS = ("timestamp_granularities", "keywords", "languages", "include")
_LISTS = {name + brackets: name for name in LISTS for brackets in ("[]", "")}
_WITH_LOGPROBS = ("json", "verbose_json")
_UNNAMED = "voices are not known by name; speakers are A, B, … in the order in which they are heard"
_REFUSED = {"known_speaker_names": _UNNAMED, "known_speaker_references": _UNNAMED}


class ChunkingStrategy(ServerVadFields):
    """Endpointing. With `none`, an extension of OpenAI's API, all audio counts as speech."""

    type: Literal["auto", "server_vad", "none"] = "auto"


class TranscriptionForm(Hints):
    """All fields except `file`. Unknown fields are rejected by name.

    What changes the text is honoured or refused; `warnings` names what has no effect. `task` is
    the word for what is asked for, and `chunk` that for a part of the answer, as vLLM names it.
    """

    task: ClassVar[str] = "transcribe"
    chunk: ClassVar[str] = "transcription.chunk"
    model: Annotated[str, AfterValidator(bounded("model", MODEL))] = Field(
        description="the served model's name, see GET /v1/models",
        json_schema_extra={"maxLength": MODEL},
    )
    include: Annotated[tuple[Literal["logprobs"], ...], Field(max_length=1)] = Field(
        (), description="the log probabilities of the tokens: with json, verbose_json, a stream"
    )
    response_format: ResponseFormat = Field(
        "json", description="`diarized_json` says who speaks, where there is a speaker model"
    )
    temperature: float = Field(
        0.0, ge=0.0, le=1.0, description="without effect: decoding is greedy"
    )
    stream: bool = Field(False, description="server-sent events as text becomes known")
    timestamp_granularities: tuple[Literal["segment", "word"], ...] = Field(
        (), description="with verbose_json"
    )
    max_line_characters: int | None = Field(
        None, ge=10, le=500, description="with srt and vtt: a subtitle is a line of whole words"
    )
    chunking_strategy: ChunkingStrategy = ChunkingStrategy()
    stream_include_usage: bool | None = Field(
        None, description="of vLLM's API: with `stream`, text comes in chunks as vLLM sends them"
    )
    stream_continuous_usage_stats: bool | None = Field(None, description="without effect")
    max_completion_tokens: int | None = Field(
        None, ge=1, description="without effect: the server bounds the text of every part"
    )

    @property
    def wants_logprobs(self) -> bool:
        """Whether the answer has log probabilities, in a format that has room for them."""
        room = not self.wants_chunks if self.stream else self.response_format in _WITH_LOGPROBS
        return bool(self.include) and room

    @property
    def needs_logprobs(self) -> bool:
        """Whether the answer has log probabilities or means of them, as its segments have."""
        verbose = self.response_format == "verbose_json" and not self.stream
        return self.wants_logprobs or verbose

    @property
    def wants_words(self) -> bool:
        """Whether the answer has the times of words, or is cut at words."""
        if self.stream:
            return False
        timed = "word" in self.timestamp_granularities and self.response_format == "verbose_json"
        return timed or self.line_characters is not None

    @property
    def wants_speakers(self) -> bool:
        """Whether the answer says who speaks."""
        return self.response_format == "diarized_json" and not (self.stream and self.wants_chunks)

    @property
    def line_characters(self) -> int | None:
        """The longest line of a subtitle; None in other formats, and for one subtitle a segment."""
        return self.max_line_characters if self.response_format in ("srt", "vtt") else None

    @property
    def words_asked_by(self) -> str:
        """The field that asks for words."""
        return "timestamp_granularities" if self.line_characters is None else "max_line_characters"

    @property
    def wants_chunks(self) -> bool:
        """Whether a stream is one of vLLM's chunks: only its clients send this field."""
        return self.stream_include_usage is not None

    @property
    def warnings(self) -> list[str]:
        """Sentences on what was asked for and has no effect."""
        found = self.without_effect
        if self.temperature:
            found.append("temperature has no effect: decoding is greedy")
        if self.include and not self.wants_logprobs:
            found.append("include has no effect: this format has no room for log probabilities")
        if "word" in self.timestamp_granularities and not self.wants_words:
            found.append("timestamp_granularities has no effect: words come with verbose_json")
        if self.response_format == "diarized_json" and not self.wants_speakers:
            found.append("response_format has no effect: a stream of chunks has no speakers")
        if self.max_line_characters is not None and not self.wants_words:
            found.append("max_line_characters has no effect: lines are those of srt and vtt")
        if self.stream_continuous_usage_stats:
            found.append("stream_continuous_usage_stats has no effect")
        if self.max_completion_tokens is not None:
            found.append("max_completion_tokens has no effect: the server bounds every part")
        return found


F = TypeVar("F", bound=TranscriptionForm)


def parse_form(fields: Iterable[tuple[str, str]]) -> TranscriptionForm:
    """Parse the fields. Raises UnsupportedValue as `parse_as`."""
    return parse_as(fields, TranscriptionForm)


def parse_as(fields: Iterable[tuple[str, str]], kind: type[F]) -> F:
    """Parse the fields of a kind of request.

    Raises UnsupportedValue, naming the field and what would be valid.
    """
    try:
        form = kind.model_validate(_nested(fields), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
        known = ", ".join(dict.fromkeys(["file", "model", *kind.model_fields]))
        raise UnsupportedValue(form_fault(name, first, known), escaped(name)) from None
    _ = form.context, form.spoken  # checked here, before the recording is looked at
    return form


def _nested(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Turn `a[b]=c`, or a JSON object as `a`, into {"a": {"b": "c"}}, and `a[]` into a list."""
    values: dict[str, Any] = {}
    for name, value in fields:
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
    """Parse `auto`, `none`, or a JSON object."""
    if not text.lstrip().startswith("{"):
        return {"type": text}
    try:
        return ChunkingStrategy.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(["chunking_strategy", *(str(part) for part in first["loc"])])
        raise UnsupportedValue(form_fault(name, first), escaped(name)) from None
