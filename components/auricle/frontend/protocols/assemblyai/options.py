"""The options of `WS /v3/ws`, in its URL and in `UpdateConfiguration`. No I/O.

Options that change the text are honoured or refused. Others are accepted, and `warnings` name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from auricle.config.frontend import MAX_SILENCE_MS, MIN_SILENCE_MS
from auricle.core.errors import UnsupportedValue
from auricle.core.limits import query_pairs
from auricle.frontend.link.words import WordTimes
from auricle.frontend.session.adapter import AudioOptions
from auricle.frontend.session.turns import EndpointingPolicy
from auricle.frontend.transport.options import (
    LENIENT_SWITCHES,
    Context,
    Language,
    MaxSpeakers,
    Model,
    Others,
    SampleRate,
    context_of,
    gathered,
    read_query,
)
from auricle.frontend.transport.transcription_options import forced, several, without_effect

# AssemblyAI's defaults.
_THRESHOLD, _LONGEST_MS = 0.4, 1_280
# Options that may be switched off.
_REFUSED = {
    "filter_profanity": "the model transcribes verbatim",
    "redact_pii": "the model transcribes verbatim",
    "llm_gateway": "no language model is called here",
    "webhook_url": "results are sent on the connection",
}
# Options that the model decides by itself, or that do not change the text.
_ADVISORY = (
    *("acknowledge_silence", "agent_context", "continuous_partials", "domain", "mode"),
    *("customer_support_audio_capture", "interruption_delay"),
    *("noise_suppression_model", "noise_suppression_threshold", "previous_context_n_turns"),
    *("redact_pii_policies", "redact_pii_sub", "session_heartbeat"),
    *("speaker_labels_revision_interval_ms", "token", "turn_left_pad_ms", "vad_threshold"),
    *("voice_focus", "voice_focus_threshold"),
    *("webhook_auth_header_name", "webhook_auth_header_value"),
)
_OTHERS = Others(_REFUSED, _ADVISORY)
_FORMER = {"min_end_of_turn_silence_when_confident": "min_turn_silence"}
_Silence = Annotated[int, Meta(ge=0, le=MAX_SILENCE_MS)]


class TurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options that may change within a session; silences are in ms."""

    end_of_turn_confidence_threshold: Annotated[float, Meta(ge=0, le=1)] = _THRESHOLD
    min_turn_silence: _Silence | None = None
    max_turn_silence: _Silence | None = None
    format_turns: bool | None = None

    def policy(self, min_silence_ms: int, *, judged: bool) -> EndpointingPolicy:
        """Return when turns end. Raises UnsupportedValue if the silences contradict each other."""
        least, most = self.min_turn_silence, self.max_turn_silence
        if least is not None and most is not None and least > most:
            raise UnsupportedValue(
                f"min_turn_silence ({least}) is above max_turn_silence ({most})", "min_turn_silence"
            )
        return EndpointingPolicy(
            self.end_of_turn_confidence_threshold,
            _LONGEST_MS if most is None else most,
            _THRESHOLD,
            min_silence_ms,
            least_ms=least or 0,
            judged=judged,
        )

    def warnings(self) -> tuple[str, ...]:
        """Return sentences about options without effect, or with another effect."""
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


class _Given(TurnSettings, frozen=True, kw_only=True):
    """All options of the URL that have an effect. Its lists are JSON."""

    sample_rate: SampleRate
    encoding: Literal["pcm_s16le", "pcm_mulaw"] = "pcm_s16le"
    speech_model: Model | None = None
    language_code: Language | None = None
    language_codes: Annotated[tuple[Language, ...], Meta(max_length=100)] = ()
    language_detection: bool = False
    prompt: Context = ""
    keyterms_prompt: Annotated[tuple[Context, ...], Meta(max_length=1_000)] = ()
    include_partial_turns: bool = True
    word_times: WordTimes = "grid"
    speaker_labels: bool = False
    max_speakers: MaxSpeakers | None = None
    inactivity_timeout: Annotated[int, Meta(ge=5, le=3_600)] | None = None

    def codes(self) -> tuple[str, ...]:
        """Return the languages as they were given; empty to detect any."""
        return tuple(code for code in (*self.language_codes, self.language_code) if code)

    def warnings(self) -> tuple[str, ...]:
        if self.max_speakers is None or self.speaker_labels:
            return super().warnings()
        return (*super().warnings(), "max_speakers has no effect without speaker_labels")


@dataclass(frozen=True, kw_only=True)
class StreamingOptions(AudioOptions):
    """The options of a session. Without `idle_seconds` the server's time-out applies.

    `tells_language`: messages name the detected language.
    """

    turns: TurnSettings
    policy: EndpointingPolicy
    tells_language: bool = False
    idle_seconds: float | None = None

    def updated(self, changes: Mapping[str, Any]) -> StreamingOptions:
        """Return the options with those changes; `warnings` are about the changes only.

        Raises UnsupportedValue, which names the option.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        for name in given:
            if name in _Given.__struct_fields__ and name not in TurnSettings.__struct_fields__:
                raise UnsupportedValue(
                    f"{name} cannot change within a session; open another connection", name
                )
        before = msgspec.structs.asdict(self.turns)
        turns, warnings = read_query(
            TurnSettings, before | _renamed(given), _OTHERS, LENIENT_SWITCHES
        )
        policy = turns.policy(self.policy.min_silence_ms, judged=self.policy.judged)
        return replace(
            self,
            turns=turns,
            policy=policy,
            silence=policy.silence,
            warnings=(*turns.warnings(), *warnings),
        )


def parse_options(query: str, min_silence_ms: int, *, judged: bool = False) -> StreamingOptions:
    """Parse the query string. Raises BadRequest, which names the option and its valid values.

    `min_silence_ms` is the silence that ends speech in other protocols; `judged`: there is a turn
    model.
    """
    given = _renamed(gathered(query_pairs(query)))
    wanted, warnings = read_query(_Given, given, _OTHERS, LENIENT_SWITCHES)
    codes = wanted.codes()
    policy = wanted.policy(min_silence_ms, judged=judged)
    return StreamingOptions(
        encoding=wanted.encoding,
        sample_rate=wanted.sample_rate,
        model=wanted.speech_model,
        language=forced(None, codes),
        languages=several(codes),
        context=context_of("prompt and keyterms_prompt", wanted.keyterms_prompt, wanted.prompt),
        partials=wanted.include_partial_turns,
        silence=policy.silence,
        warnings=(*wanted.warnings(), *without_effect(codes, "language_codes"), *warnings),
        words=wanted.word_times,
        diarize=wanted.speaker_labels,
        max_speakers=wanted.max_speakers,
        turns=TurnSettings(**{n: getattr(wanted, n) for n in TurnSettings.__struct_fields__}),
        policy=policy,
        tells_language=wanted.language_detection,
        idle_seconds=wanted.inactivity_timeout,
    )


def _renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    former = {_FORMER[name]: value for name, value in given.items() if name in _FORMER}
    return former | {name: value for name, value in given.items() if name not in _FORMER}
