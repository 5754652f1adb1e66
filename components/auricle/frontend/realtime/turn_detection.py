"""Turn detection as `session.update` asks for it, and what of it has no effect. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

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


class ServerVad(
    ServerVadFields, frozen=True, kw_only=True, tag="server_vad", forbid_unknown_fields=True
):
    """Turn detection by the server: a turn ends where speech ends."""

    # OpenAI's bounds, which are wider than those in effect.
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    silence_duration_ms: Annotated[int, Meta(ge=0, le=MAX_SILENCE_MS)] | None = None
    idle_timeout_ms: int | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None

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
        found = _without_effect(self)
        low, high = MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD
        if self.threshold is not None and not low <= self.threshold <= high:
            found.append(f"turn_detection.threshold is taken as the nearest of {low:g} to {high:g}")
        if self.silence_duration_ms is not None and self.silence_duration_ms < MIN_SILENCE_MS:
            found.append(f"turn_detection.silence_duration_ms is taken as {MIN_SILENCE_MS}")
        return found


class SemanticVad(
    msgspec.Struct, frozen=True, kw_only=True, tag="semantic_vad", forbid_unknown_fields=True
):
    """Turn detection by what was said and how, which a turn model hears."""

    eagerness: Eagerness | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the server's options, with turns that end as `eagerness` wants."""
        return replace(ServerVadFields().over(settings), turns=WAITS[self.eagerness or "auto"])

    def warnings(self) -> list[str]:
        """Return sentences on what has no effect."""
        return _without_effect(self)


TurnDetection = ServerVad | SemanticVad


def _without_effect(wanted: TurnDetection) -> list[str]:
    """Return sentences on what is asked of responses, which there are none of here."""
    return [
        f"turn_detection.{name} has no effect: there are no responses"
        for name in ("create_response", "interrupt_response", "idle_timeout_ms")
        if getattr(wanted, name, None)
    ]


def described(wanted: TurnDetection, options: EndpointingOptions) -> dict[str, Any]:
    """Return the turn detection that `wanted` asks for as it is in effect, by `options`."""
    if isinstance(wanted, SemanticVad):
        return {"type": "semantic_vad", "eagerness": wanted.eagerness or "auto"}
    return {
        "type": "server_vad",
        "threshold": options.threshold,
        "prefix_padding_ms": options.pre_roll_ms,
        "silence_duration_ms": options.min_silence_ms,
    }
