"""Parses and validates the form fields of a transcription request. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from auricle.errors import UnsupportedValue
from auricle.frontend.doors.field_errors import bounded, form_fault
from auricle.frontend.listening.server_vad import ServerVadFields
from auricle.quoting import escaped
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL

ResponseFormat = Literal["json", "text", "verbose_json", "srt", "vtt"]
_LISTS = {"timestamp_granularities[]": "timestamp_granularities"}


class ChunkingStrategy(ServerVadFields):
    """Endpointing. With `none`, an extension of OpenAI's API, all audio counts as speech."""

    type: Literal["auto", "server_vad", "none"] = "auto"


class TranscriptionForm(BaseModel):
    """All fields except `file`. Unknown fields are rejected by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, AfterValidator(bounded("model", MODEL))] = Field(
        description="the served model's name, see GET /v1/models",
        json_schema_extra={"maxLength": MODEL},
    )
    language: Annotated[str, AfterValidator(bounded("language", LANGUAGE))] | None = Field(
        default=None,
        description="ISO 639-1 code or name; detected by default",
        json_schema_extra={"maxLength": LANGUAGE},
    )
    prompt: Annotated[str, AfterValidator(bounded("prompt", CONTEXT))] = Field(
        "",
        description="context the model may take into account, such as names",
        json_schema_extra={"maxLength": CONTEXT},
    )
    response_format: ResponseFormat = "json"
    temperature: float = Field(0.0, ge=0.0, le=0.0, description="decoding is greedy: only 0")
    stream: bool = Field(False, description="server-sent events as text becomes known")
    timestamp_granularities: tuple[Literal["segment"], ...] = Field(
        (), description="with verbose_json"
    )
    chunking_strategy: ChunkingStrategy = ChunkingStrategy()


_KNOWN = ", ".join(["file", *TranscriptionForm.model_fields])


def parse_form(fields: Iterable[tuple[str, str]]) -> TranscriptionForm:
    """Parse the fields. Raises UnsupportedValue, naming the field and what would be valid."""
    try:
        return TranscriptionForm.model_validate(_nested(fields), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
        raise UnsupportedValue(form_fault(name, first, _KNOWN), escaped(name)) from None


def _nested(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Turn `a[b]=c`, or a JSON object as `a`, into {"a": {"b": "c"}}, and `a[]` into a list."""
    values: dict[str, Any] = {}
    for name, value in fields:
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
