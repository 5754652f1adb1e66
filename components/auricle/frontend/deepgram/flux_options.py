"""The options of `WS /v2/listen`. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from auricle.errors import UnsupportedValue
from auricle.frontend.deepgram.given import REFUSED, Given, wrong
from auricle.frontend.deepgram.options import audio_form
from auricle.frontend.deepgram.turn_ends import Thresholds, TurnEnds
from auricle.frontend.dialects.options import AudioOptions
from auricle.frontend.dialects.silences import speech_ends
from auricle.quoting import quoted

_HONOURED = (
    *("encoding", "sample_rate", "model", "keyterm"),
    *("eot_threshold", "eager_eot_threshold", "eot_timeout_ms"),
)
_ADVISORY = ("language_hint", "mip_opt_out", "tag")
_REFUSED = {name: REFUSED[name] for name in ("profanity_filter", "numerals", "redact")}
# Their least and largest values.
_EOT, _EAGER, _TIMEOUT_MS = (0.5, 1.0), (0.3, 0.9), (500, 60_000)
T = TypeVar("T")
_SHARE = re.compile(r"\d?\.?\d{1,6}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class FluxOptions(AudioOptions):
    """What was asked for."""

    ends: TurnEnds


def parse_flux_options(query: str, min_silence_ms: int, *, judged: bool = False) -> FluxOptions:
    """Parse the query string. Raises BadRequest, naming the option and what would be right.

    `min_silence_ms` is the silence that ends speech on the other ways in; `judged`: there is a turn
    model.
    """
    given = Given(query, _HONOURED, _ADVISORY, _REFUSED)
    encoding, sample_rate = audio_form(given)
    default = Thresholds()
    thresholds = checked(
        Thresholds(
            _share(given, "eot_threshold", default.eot),
            _share(given, "eager_eot_threshold", default.eager),
            given.number("eot_timeout_ms", *_TIMEOUT_MS) or default.timeout_ms,
        )
    )
    ends = TurnEnds(thresholds, min_silence_ms, judged)
    return FluxOptions(
        encoding=encoding,
        sample_rate=sample_rate,
        model=given.model(),
        context=given.context(),
        partials=True,
        silence=speech_ends(ends),
        ends=ends,
        warnings=given.all_warnings,
    )


def checked(thresholds: Thresholds) -> Thresholds:
    """Return the thresholds. Raises UnsupportedValue, naming the one that cannot be."""
    eot, eager = thresholds.eot, thresholds.eager
    _check("eot_threshold", eot, *_EOT)
    _check("eager_eot_threshold", eager, *_EAGER)
    _check("eot_timeout_ms", thresholds.timeout_ms, *_TIMEOUT_MS)
    if eager is not None and eager > eot:
        raise UnsupportedValue(
            f"eager_eot_threshold ({eager:g}) is above eot_threshold ({eot:g})",
            "eager_eot_threshold",
        )
    return thresholds


def _check(name: str, value: float | None, low: float, high: float) -> None:
    # A value that is not a number compares as false.
    if value is not None and not low <= value <= high:
        said = f"{name} is {quoted(value)}; it must be from {low} to {high}"
        raise UnsupportedValue(said, name)


def _share(given: Given, name: str, default: T) -> float | T:
    value = given.one(name)
    if value is None:
        return default
    if not _SHARE.fullmatch(value):
        raise wrong(name, value, "a number, such as 0.7")
    return float(value)
