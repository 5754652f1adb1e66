"""The settings of turn detection, under the names of OpenAI's protocols."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.live_settings import (
    MAX_PRE_ROLL_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_THRESHOLD,
    MIN_SILENCE_MS,
    MIN_SPEECH_THRESHOLD,
)
from auricle.settings import FrontendSettings


class ServerVadFields(BaseModel):
    """Durations are in milliseconds; None stands for the server's default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float | None = Field(default=None, ge=MIN_SPEECH_THRESHOLD, le=MAX_SPEECH_THRESHOLD)
    prefix_padding_ms: int | None = Field(default=None, ge=0, le=MAX_PRE_ROLL_MS)
    silence_duration_ms: int | None = Field(default=None, ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS)

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the options in effect: these values, and the server's where one is None."""
        return EndpointingOptions.over(
            settings,
            threshold=self.threshold,
            min_silence_ms=self.silence_duration_ms,
            pre_roll_ms=self.prefix_padding_ms,
        )
