"""The settings of turn detection, under the names of OpenAI's protocols."""

from __future__ import annotations

import msgspec

from auricle.frontend.listening.endpointing import EndpointingOptions
from auricle.live_settings import PreRollMs, SilenceMs, SpeechThreshold
from auricle.settings import FrontendSettings


class ServerVadFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations are in milliseconds; None stands for the server's default."""

    threshold: SpeechThreshold | None = None
    prefix_padding_ms: PreRollMs | None = None
    silence_duration_ms: SilenceMs | None = None

    def over(self, settings: FrontendSettings) -> EndpointingOptions:
        """Return the options in effect: these values, and the server's where one is None."""
        return EndpointingOptions.over(
            settings,
            threshold=self.threshold,
            min_silence_ms=self.silence_duration_ms,
            pre_roll_ms=self.prefix_padding_ms,
        )
