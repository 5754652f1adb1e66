"""Turn detection as `session.update` asks for it, and what of it has no effect. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.frontend.listening.server_vad import ServerVadFields
from auricle.frontend.listening.turn_wait import WAITS, Eagerness
from auricle.live_settings import (
    MAX_SILENCE_MS,
    MAX_SPEECH_THRESHOLD,
    MIN_SILENCE_MS,
    MIN_SPEECH_THRESHOLD,
)
from auricle.settings import FrontendSettings


class _Responses(BaseModel):
    """What is asked of responses, which there are none of here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    create_response: bool | None = None
    interrupt_response: bool | None = None

    def without_effect(self) -> list[str]:
        """Return the fields that ask for something that does not happen."""
        return [name for name in _Responses.model_fields if getattr(self, name)]


class ServerVad(ServerVadFields, _Responses):
    """Turn detection by the server: a turn ends where speech ends."""

    type: Literal["server_vad"] = "server_vad"
    # OpenAI's bounds, which are wider than those in effect.
    threshold: float | None = Field(default=None, ge=0, le=1)
    silence_duration_ms: int | None = Field(default=None, ge=0, le=MAX_SILENCE_MS)
    idle_timeout_ms: int | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the options in effect, within their bounds; see `ServerVadFields.over`."""
        threshold, silence_ms = self.threshold, self.silence_duration_ms
        if threshold is not None:
            threshold = min(max(threshold, MIN_SPEECH_THRESHOLD), MAX_SPEECH_THRESHOLD)
        if silence_ms is not None:
            silence_ms = max(silence_ms, MIN_SILENCE_MS)
        fields = ServerVadFields(
            threshold=threshold,
            silence_duration_ms=silence_ms,
            prefix_padding_ms=self.prefix_padding_ms,
        )
        return fields.over(settings)

    def warnings(self) -> list[str]:
        """Return sentences on what has no effect, or not the one that was asked for."""
        unused = [*self.without_effect(), *(["idle_timeout_ms"] if self.idle_timeout_ms else [])]
        found = [f"turn_detection.{name} has no effect: there are no responses" for name in unused]
        low, high = MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD
        if self.threshold is not None and not low <= self.threshold <= high:
            found.append(f"turn_detection.threshold is taken as the nearest of {low:g} to {high:g}")
        if self.silence_duration_ms is not None and self.silence_duration_ms < MIN_SILENCE_MS:
            found.append(f"turn_detection.silence_duration_ms is taken as {MIN_SILENCE_MS}")
        return found


class SemanticVad(_Responses):
    """Turn detection by what was said and how, which a turn model hears."""

    type: Literal["semantic_vad"] = "semantic_vad"
    eagerness: Eagerness | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the server's options, with turns that end as `eagerness` wants."""
        return replace(ServerVadFields().over(settings), turns=WAITS[self.eagerness or "auto"])

    def warnings(self) -> list[str]:
        """Return sentences on what has no effect."""
        return [
            f"turn_detection.{name} has no effect: there are no responses"
            for name in self.without_effect()
        ]


def described(wanted: ServerVad | SemanticVad, options: EndpointingOptions) -> dict[str, Any]:
    """Return the turn detection that `wanted` asks for as it is in effect, by `options`."""
    if isinstance(wanted, SemanticVad):
        return {"type": wanted.type, "eagerness": wanted.eagerness or "auto"}
    return {
        "type": wanted.type,
        "threshold": options.threshold,
        "prefix_padding_ms": options.pre_roll_ms,
        "silence_duration_ms": options.min_silence_ms,
    }


def _kind(value: Any) -> str | None:
    """Return the type of a turn detection; it need not be named for `server_vad`."""
    if isinstance(value, dict):
        kind = value.get("type", "server_vad")
    else:
        kind = getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


TurnDetection = Annotated[
    Annotated[ServerVad, Tag("server_vad")] | Annotated[SemanticVad, Tag("semantic_vad")],
    Discriminator(_kind),
]
TAGS = ("server_vad", "semantic_vad")
