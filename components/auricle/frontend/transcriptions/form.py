"""The request's form fields. Pure: names and values in, a checked request out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auricle.errors import UnsupportedValue
from auricle.frontend.server_vad import ServerVadFields
from auricle.settings import MAX_CONTEXT_CHARACTERS

ResponseFormat = Literal["json", "text", "verbose_json", "srt", "vtt"]
_LISTS = {"timestamp_granularities[]": "timestamp_granularities"}


class ChunkingStrategy(ServerVadFields):
    """How speech is found. `none` takes all audio as speech (an extension of ours)."""

    type: Literal["auto", "server_vad", "none"] = "auto"


class TranscriptionForm(BaseModel):
    """All fields but `file`; others are refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(description="the served model's name, see GET /v1/models")
    language: str | None = Field(
        default=None, description="ISO 639-1 code or name; detected by default"
    )
    prompt: str = Field(
        "",
        max_length=MAX_CONTEXT_CHARACTERS,
        description="context the model may take into account, such as names",
    )
    response_format: ResponseFormat = "json"
    temperature: float = Field(0.0, ge=0.0, le=0.0, description="decoding is greedy: only 0")
    stream: bool = Field(False, description="server-sent events as text becomes known")
    timestamp_granularities: tuple[Literal["segment"], ...] = Field(
        (), description="with verbose_json"
    )
    chunking_strategy: ChunkingStrategy = ChunkingStrategy()


def parse_form(fields: Iterable[tuple[str, str]]) -> TranscriptionForm:
    """Raises UnsupportedValue naming the field, what was wrong and what would be right."""
    try:
        return TranscriptionForm.model_validate(_nested(fields), strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
        raise UnsupportedValue(_sentence(name, first), name) from None


def _nested(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """`a[b]=c` and a JSON object as `a` alike become {"a": {"b": "c"}}, `a[]` a list."""
    values: dict[str, Any] = {}
    for name, value in fields:
        if name in _LISTS:
            values.setdefault(_LISTS[name], []).append(value)
            continue
        outer, bracket, inner = name.partition("[")
        if bracket and inner.endswith("]"):
            inside = values.setdefault(outer, {})
            if not isinstance(inside, dict) or inner[:-1] in inside:
                raise UnsupportedValue(f"{outer} was sent twice", outer)
            inside[inner[:-1]] = value
        elif name in values:
            raise UnsupportedValue(f"{name} was sent twice", name)
        else:
            values[name] = value
    if isinstance(strategy := values.get("chunking_strategy"), str):
        values["chunking_strategy"] = _strategy(strategy)
    return values


def _strategy(text: str) -> Any:
    """`auto`, `none`, or an object as JSON."""
    if not text.lstrip().startswith("{"):
        return {"type": text}
    try:
        return ChunkingStrategy.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(["chunking_strategy", *(str(part) for part in first["loc"])])
        raise UnsupportedValue(_sentence(name, first), name) from None


def _sentence(name: str, error: Any) -> str:
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "extra_forbidden":
        known = ", ".join(["file", *TranscriptionForm.model_fields])
        return f"{name} is not supported; supported: {known}"
    message = error["msg"]
    return f"{name} {error['input']!r} cannot be used: {message[0].lower()}{message[1:]}"
