"""The options of `WS /v2/listen`. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, field

from auricle.errors import UnsupportedValue
from auricle.frontend.deepgram.options import (
    REFUSED,
    REPEATED,
    Encoding,
    asked,
    audio_form,
    terms_of,
)
from auricle.frontend.dialects.options import AudioOptions
from auricle.frontend.dialects.silences import EndpointingPolicy
from auricle.frontend.doors.options import Model, Others, SampleRate

_THRESHOLD = 0.7  # Deepgram's default
_OTHERS = Others(
    {name: REFUSED[name] for name in ("profanity_filter", "numerals", "redact")},
    ("language_hint", "mip_opt_out", "tag"),
    REPEATED,
)


class Thresholds(msgspec.Struct, frozen=True):
    """What a client asked for; without `eager` it is not told before the end of a turn.

    `timeout_ms` of silence end a turn, however sure one is.
    """

    eot: Annotated[float, Meta(ge=0.5, le=1.0)] = field(default=_THRESHOLD, name="eot_threshold")
    eager: Annotated[float, Meta(ge=0.3, le=0.9)] | None = field(
        default=None, name="eager_eot_threshold"
    )
    timeout_ms: Annotated[int, Meta(ge=500, le=60_000)] = field(
        default=5_000, name="eot_timeout_ms"
    )

    def checked(self) -> Thresholds:
        """Return the thresholds. Raises UnsupportedValue if `eager` is above `eot`."""
        if self.eager is not None and self.eager > self.eot:
            raise UnsupportedValue(
                f"eager_eot_threshold ({self.eager:g}) is above eot_threshold ({self.eot:g})",
                "eager_eot_threshold",
            )
        return self

    def policy(self, min_silence_ms: int, *, judged: bool) -> EndpointingPolicy:
        """Return when turns end."""
        return EndpointingPolicy(
            *(self.eot, self.timeout_ms, _THRESHOLD, min_silence_ms), self.eager, judged=judged
        )


class _Given(Thresholds, frozen=True, kw_only=True):
    encoding: Encoding | None = None
    sample_rate: SampleRate | None = None
    model: Model | None = None
    keyterm: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FluxOptions(AudioOptions):
    """What was asked for."""

    thresholds: Thresholds
    policy: EndpointingPolicy


def parse_flux_options(query: str, min_silence_ms: int, *, judged: bool = False) -> FluxOptions:
    """Parse the query string. Raises BadRequest, naming the option and what would be right.

    `min_silence_ms` is the silence that ends speech on the other ways in; `judged`: there is a turn
    model.
    """
    given, warnings = asked(query, _Given, _OTHERS)
    encoding, sample_rate = audio_form(given.encoding, given.sample_rate)
    thresholds = Thresholds(given.eot, given.eager, given.timeout_ms).checked()
    policy = thresholds.policy(min_silence_ms, judged=judged)
    return FluxOptions(
        encoding=encoding,
        sample_rate=sample_rate,
        model=given.model,
        context=terms_of(given.keyterm),
        partials=True,
        silence=policy.silence,
        thresholds=thresholds,
        policy=policy,
        warnings=tuple(warnings),
    )
