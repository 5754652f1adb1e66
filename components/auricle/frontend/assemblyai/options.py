"""The options of `WS /v3/ws`: those of its URL, and those of `UpdateConfiguration`. No I/O.

What changes the text is honoured or refused. What does not is taken, and `warnings` name it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.errors import UnsupportedValue
from auricle.frontend.assemblyai.silences import MOST_MS, THRESHOLD, TurnSilences
from auricle.frontend.dialects.options import AudioOptions
from auricle.frontend.dialects.silences import speech_ends
from auricle.frontend.doors.field_errors import bounded, form_fault
from auricle.frontend.doors.hints import several, without_effect
from auricle.frontend.line.word_times import word_times
from auricle.live_settings import MAX_SILENCE_MS, MIN_SILENCE_MS
from auricle.quoting import escaped, quoted
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL, check, query_pairs

# Options that may be switched off.
_REFUSED: Mapping[str, str] = {
    "filter_profanity": "the model writes what is said",
    "redact_pii": "the model writes what is said",
    "llm_gateway": "no language model is called here",
    "webhook_url": "results are sent on the connection",
}
# They ask for what the model does or does not do by itself, or are not about the text.
_ADVISORY = frozenset(
    (
        *("acknowledge_silence", "agent_context", "continuous_partials", "domain", "mode"),
        *("customer_support_audio_capture", "interruption_delay", "max_speakers"),
        *("noise_suppression_model", "noise_suppression_threshold", "previous_context_n_turns"),
        *("redact_pii_policies", "redact_pii_sub", "session_heartbeat", "speaker_labels"),
        *("speaker_labels_revision_interval_ms", "token", "turn_left_pad_ms", "vad_threshold"),
        *("voice_focus", "voice_focus_threshold"),
        *("webhook_auth_header_name", "webhook_auth_header_value"),
    )
)
_FORMER = {"min_end_of_turn_silence_when_confident": "min_turn_silence"}
# In the URL they are JSON.
_LISTS = ("keyterms_prompt", "language_codes")
_MOST_TERMS, _MOST_LANGUAGES = 1_000, 100
_Silence = Annotated[int, Field(ge=0, le=MAX_SILENCE_MS)]


class TurnSettings(BaseModel):
    """What may change within a session; silences are in ms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    end_of_turn_confidence_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = (
        THRESHOLD
    )
    min_turn_silence: _Silence | None = None
    max_turn_silence: _Silence | None = None
    format_turns: bool | None = None

    def ends(self, min_silence_ms: int, *, judged: bool) -> TurnSilences:
        """Return when turns end; see `TurnSilences`. Raises UnsupportedValue."""
        least, most = self.min_turn_silence, self.max_turn_silence
        if least is not None and most is not None and least > most:
            raise UnsupportedValue(
                f"min_turn_silence ({least}) is above max_turn_silence ({most})", "min_turn_silence"
            )
        threshold = self.end_of_turn_confidence_threshold
        most = MOST_MS if most is None else most
        return TurnSilences(min_silence_ms, threshold, least or 0, most, judged)

    def warnings(self) -> tuple[str, ...]:
        """Return sentences on what has no effect, or another one."""
        found = []
        if self.max_turn_silence is not None and self.max_turn_silence < MIN_SILENCE_MS:
            found.append(
                f"max_turn_silence={self.max_turn_silence} is too short: "
                f"a turn ends after {MIN_SILENCE_MS} ms of silence at the earliest"
            )
        if self.format_turns is False:
            found.append(
                "format_turns=false has no effect: the model writes punctuation and capitals"
            )
        return tuple(found)


class _Given(TurnSettings):
    """All options of the URL that have an effect."""

    encoding: Literal["pcm_s16le", "pcm_mulaw"] = "pcm_s16le"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)]
    speech_model: Annotated[str, AfterValidator(bounded("speech_model", MODEL))] | None = None
    language_code: Annotated[str, AfterValidator(bounded("language_code", LANGUAGE))] | None = None
    language_codes: Annotated[
        tuple[Annotated[str, AfterValidator(bounded("language_codes", LANGUAGE))], ...],
        Field(max_length=_MOST_LANGUAGES),
    ] = ()
    language_detection: bool = False
    prompt: Annotated[str, AfterValidator(bounded("prompt", CONTEXT))] = ""
    keyterms_prompt: Annotated[
        tuple[Annotated[str, AfterValidator(bounded("keyterms_prompt", CONTEXT))], ...],
        Field(max_length=_MOST_TERMS),
    ] = ()
    include_partial_turns: bool = True
    word_times: str | None = None
    inactivity_timeout: Annotated[int, Field(ge=5, le=3_600)] | None = None


_Settings = TypeVar("_Settings", bound=TurnSettings)


@dataclass(frozen=True, kw_only=True)
class StreamingOptions(AudioOptions):
    """What was asked for. Without `idle_seconds` the server's time-out applies.

    `tells_language`: messages name the language that was heard.
    """

    turns: TurnSettings
    ends: TurnSilences
    tells_language: bool = False
    idle_seconds: float | None = None

    def updated(self, changes: Mapping[str, Any]) -> StreamingOptions:
        """Return the options with those changes; `warnings` are those of the changes.

        Raises UnsupportedValue, naming the option.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        for name in given:
            if name in _Given.model_fields and name not in TurnSettings.model_fields:
                raise UnsupportedValue(
                    f"{name} cannot change within a session; open another connection", name
                )
        changed, warnings = _honoured(given, TurnSettings)
        turns = self.turns.model_copy(update=changed.model_dump(exclude_unset=True))
        ends = turns.ends(self.ends.min_silence_ms, judged=self.ends.judged)
        return replace(
            self,
            turns=turns,
            ends=ends,
            silence=speech_ends(ends),
            warnings=(*turns.warnings(), *warnings),
        )


def parse_options(query: str, min_silence_ms: int, *, judged: bool = False) -> StreamingOptions:
    """Parse the query string. Raises BadRequest, naming the option and what would be right.

    `min_silence_ms` is the silence that ends speech on the other ways in; `judged`: there is a turn
    model.
    """
    pairs = query_pairs(query)
    given: dict[str, Any] = dict(pairs)
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise UnsupportedValue(f"{escaped(name)} was given {times} times", escaped(name))
    for name in _LISTS:
        if name in given:
            given[name] = _list(name, given[name])
    wanted, warnings = _honoured(given, _Given)
    codes = _codes(wanted)
    ends = wanted.ends(min_silence_ms, judged=judged)
    return StreamingOptions(
        encoding=wanted.encoding,
        sample_rate=wanted.sample_rate,
        model=wanted.speech_model,
        language=codes[0] if len(codes) == 1 else None,
        languages=several(codes),
        context=_context(wanted),
        partials=wanted.include_partial_turns,
        silence=speech_ends(ends),
        warnings=(*wanted.warnings(), *without_effect(codes, "language_codes"), *warnings),
        words=word_times(wanted.word_times),
        turns=TurnSettings(**{name: getattr(wanted, name) for name in TurnSettings.model_fields}),
        ends=ends,
        tells_language=wanted.language_detection,
        idle_seconds=wanted.inactivity_timeout,
    )


def _honoured(given: Mapping[str, Any], kind: type[_Settings]) -> tuple[_Settings, tuple[str, ...]]:
    """Return the options that have an effect, and a sentence on each that has none."""
    honoured: dict[str, Any] = {}
    warnings: list[str] = []
    for former, value in given.items():
        name = _FORMER.get(former, former)
        if name in kind.model_fields:
            if value is not None:
                honoured.setdefault(name, value)
        elif name in _REFUSED:
            if not _off(value):
                raise UnsupportedValue(f"{name} is not supported: {_REFUSED[name]}", name)
        elif name not in _ADVISORY:
            known = ", ".join(sorted(kind.model_fields))
            raise UnsupportedValue(
                f"{escaped(name)} is not supported; supported: {known}", escaped(name)
            )
        elif not _off(value):
            warnings.append(f"{name} has no effect")
    try:
        return kind.model_validate(honoured, strict=False), tuple(warnings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise UnsupportedValue(form_fault(name, first), escaped(name)) from None


def _off(value: object) -> bool:
    return value in (None, False) or (isinstance(value, str) and value.lower() in ("", "false"))


def _list(name: str, text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, RecursionError):
        raise UnsupportedValue(
            f'{name} {quoted(text)} cannot be used: it must be a JSON list, such as ["Ada"]', name
        ) from None


def _codes(wanted: _Given) -> tuple[str, ...]:
    """Return the languages without their regions; empty to detect any."""
    given = (*wanted.language_codes, wanted.language_code or "")
    codes = dict.fromkeys(code.partition("-")[0] for code in given if code)
    return () if "multi" in codes else tuple(codes)


def _context(wanted: _Given) -> str:
    """Return what the client expects to be said, as context for the model."""
    context = " ".join(part for part in (wanted.prompt, ", ".join(wanted.keyterms_prompt)) if part)
    check("prompt and keyterms_prompt", context, CONTEXT)
    return context
