"""The settings of each section; an unknown key or invalid value is rejected by name and file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from auricle.config.common import CommonSettings
from auricle.config.frontend import DoorSettings, LiveSettings, RecordingSettings
from auricle.config.planner import PlannerOptions
from auricle.config.workers import (
    AlignEncodeWorkerSettings,
    AlignWorkerSettings,
    DiarizeWorkerSettings,
    EncodeWorkerSettings,
    PdWorkerSettings,
    TranslateWorkerSettings,
)
from auricle.core.errors import SettingsError

__all__ = [
    "FORMER",
    "SECTIONS",
    "AlignEncodeWorkerSettings",
    "AlignWorkerSettings",
    "CommonSettings",
    "DiarizeWorkerSettings",
    "DynamoFrontendSettings",
    "EncodeWorkerSettings",
    "FrontendSettings",
    "PdWorkerSettings",
    "PlannerSettings",
    "ProcessorSettings",
    "TranslateWorkerSettings",
    "refuse_unknown",
]


class FrontendSettings(LiveSettings, DoorSettings, RecordingSettings, CommonSettings):
    """Section `Frontend`."""


class DynamoFrontendSettings(CommonSettings):
    """Section `DynamoFrontend`: the unmodified `python -m dynamo.frontend`."""

    host: str = Field("127.0.0.1", description="address of clients' connections")
    port: int = Field(8000, ge=1, le=65535, description="port of HTTP and WebSocket")


class ProcessorSettings(CommonSettings):
    """Section `Processor`: sessions, and the rules that commit their text."""

    max_sessions: int = Field(
        64, ge=1, description="sessions at a time; with admission learnt, the upper bound"
    )
    target_chunk_ms: int = Field(
        300,
        ge=10,
        description="target of the 95th percentile of the time from a chunk's audio to its text",
    )
    admission: Literal["learnt", "fixed"] = Field(
        "learnt",
        description="limit of live sessions; learnt: the number that keeps the target, fixed: "
        "max_sessions",
    )
    max_buffered_seconds: float = Field(
        60.0,
        gt=1,
        description="undecoded audio of a session; then a push waits (backpressure)",
    )
    ahead_decodes: int = Field(
        1, ge=1, description="decodes at a time of all sessions ahead of real time"
    )
    rollback_tokens: int = Field(
        5, ge=0, description="tokens at a hypothesis' end that stay partial"
    )
    open_tokens: int = Field(
        2,
        ge=0,
        description="the last of rollback_tokens, partial even after settled_seconds",
    )
    settled_seconds: float = Field(
        1.2,
        gt=0,
        description="audio after which the others of rollback_tokens are committed if unchanged",
    )
    unfixed_chunks: int = Field(
        2, ge=0, description="first decodes of a segment, which commit nothing"
    )
    held_words: int = Field(
        0,
        ge=0,
        description="last words of a partial text that are not sent yet, because they change most; "
        "if set, a segment's first decodes, which commit nothing (unfixed_chunks), send no text",
    )
    max_tokens_per_second: float = Field(
        8.0, gt=0, description="limit of a decode's output tokens, per second of audio"
    )
    min_new_tokens: int = Field(
        16, ge=1, description="output tokens that a decode may always generate"
    )
    min_tokens_per_second: float = Field(
        0.0,
        ge=0,
        description="a final answer with fewer output tokens per second of audio ended early: its "
        "segment is cut at a pause in the middle and decoded again",
    )
    loop_guard: bool = Field(
        True, description="drop answers that repeat themselves or reach their token limit"
    )
    padding: Literal["cached", "full"] = Field(
        "cached",
        description="padding of Whisper's 30 s after the audio; cached: silence that was encoded "
        "once, full: silence that is encoded each time, as published",
    )
    encode_deadline_seconds: float = Field(
        20.0, gt=0, description="deadline of an encode request, per attempt"
    )
    decode_deadline_seconds: float = Field(
        60.0, gt=0, description="deadline of a decode request, per attempt"
    )
    attempts: int = Field(
        4, ge=1, description="attempts of an encode or decode, on different workers if possible"
    )
    words_deadline_seconds: float = Field(
        10.0, gt=0, le=120, description="deadline of a final text's words"
    )
    words_at_a_time: int = Field(
        8, ge=1, description="segments of one session that may wait for words"
    )
    speakers_deadline_seconds: float = Field(
        10.0, gt=0, le=120, description="deadline of a final text's speakers"
    )
    speakers_at_a_time: int = Field(
        8, ge=1, description="segments of one session that may wait for speakers"
    )
    max_speakers: int = Field(
        8,
        ge=1,
        le=16,
        description="speakers in one session; others are assigned to the nearest",
    )
    translation_deadline_seconds: float = Field(
        10.0,
        gt=0,
        le=120,
        description="deadline of a final text's translation",
    )
    translations_at_a_time: int = Field(
        4,
        ge=1,
        le=16,
        description="final segments of one session and language that may wait for translation",
    )
    translation_policy: Literal["agreement", "mask"] = Field(
        "agreement",
        description="part of a translation that is committed before its text is final: the common "
        "part of two hypotheses, or all but the last translation_mask_words",
    )
    translation_mask_words: int = Field(
        3, ge=1, description="words at a hypothesis' end that stay partial, with the policy mask"
    )


class PlannerSettings(PlannerOptions, CommonSettings):
    """Section `Planner`."""


SECTIONS: dict[str, type[CommonSettings]] = {
    "Frontend": FrontendSettings,
    "DynamoFrontend": DynamoFrontendSettings,
    "Processor": ProcessorSettings,
    "EncodeWorker": EncodeWorkerSettings,
    "PdWorker": PdWorkerSettings,
    "AlignEncodeWorker": AlignEncodeWorkerSettings,
    "AlignWorker": AlignWorkerSettings,
    "DiarizeWorker": DiarizeWorkerSettings,
    "TranslateWorker": TranslateWorkerSettings,
    "Planner": PlannerSettings,
}


# Former settings, and their replacements. A setting whose meaning changes gets another name: then a
# configuration for the earlier meaning is refused.
FORMER = {
    "Frontend.join_sentences_seconds": "it has no replacement; remove it",
    "Frontend.max_queued_seconds": "it has no replacement; remove it",
    "Frontend.model_presets": "remove it: its names are accepted without it",
    "Kubernetes.model_repository": "remove it: a job pulls the models that Common names",
    "Planner.quantile": "it has no replacement; remove it",
    "Processor.assured_sessions": "it has no replacement; remove it",
    "TranslateWorker.targets": "set Common.translate_targets",
}


def refuse_unknown(name: str) -> None:
    """Raise SettingsError if the component does not exist."""
    if name not in SECTIONS:
        raise SettingsError(f"unknown component {name!r}; known: {', '.join(SECTIONS)}")
