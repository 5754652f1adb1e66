"""All settings of the components; an unknown key or bad value is refused by name and file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from auricle.common_settings import CommonSettings, Seconds
from auricle.door_settings import DoorSettings
from auricle.messages import MAX_CHUNK_MS, MIN_CHUNK_MS
from auricle.recording_settings import RecordingSettings
from auricle.replicas import MAX_PLANNERS, PoolLimits, within_one_launcher
from auricle.worker_settings import (
    AlignEncodeWorkerSettings,
    AlignWorkerSettings,
    EncodeWorkerSettings,
    PdWorkerSettings,
)

__all__ = [
    "SECTIONS",
    "AlignEncodeWorkerSettings",
    "AlignWorkerSettings",
    "CommonSettings",
    "DynamoFrontendSettings",
    "EncodeWorkerSettings",
    "FrontendSettings",
    "PdWorkerSettings",
    "PlannerSettings",
    "ProcessorSettings",
]

# Bounds of what a client may request and of an operator's defaults.
MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD = 0.05, 0.95
MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 10_000
MAX_PRE_ROLL_MS = 2_000


class FrontendSettings(DoorSettings, RecordingSettings, CommonSettings):
    """Section `Frontend`."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535, description="0 takes a free port")
    max_sessions: int = Field(64, ge=1)
    default_chunk_ms: int = Field(640, ge=MIN_CHUNK_MS, le=MAX_CHUNK_MS)
    start_timeout_seconds: Seconds = Field(10.0, gt=0, description="deadline of the start message")
    idle_timeout_seconds: Seconds = Field(
        60.0, gt=0, description="deadline of a client's next audio"
    )
    dynamo_model: bool = Field(
        False, description="register a model that Dynamo's own frontend serves at /v1/realtime"
    )
    realtime_idle_seconds: Seconds = Field(
        900.0, gt=0, description="deadline of a client's next event on /v1/realtime"
    )
    resume_seconds: Seconds = Field(
        120.0, ge=0, le=3600, description="a client may resume a session for so long; 0: never"
    )
    slow_reader_seconds: Seconds = Field(
        20.0, gt=0, description="a client's session ends if an event stays unread this long"
    )
    max_frame_bytes: int = Field(1 << 20, ge=1024, description="size limit of a WebSocket message")
    request_deadline_seconds: Seconds = Field(
        60.0, gt=0, description="deadline of a processor push"
    )
    ahead_seconds: Seconds = Field(
        10.0, ge=0, description="speech ahead of real time; beyond, a session yields to the others"
    )
    endpointing: bool = Field(True, description="find speech; if not, silence is decoded too")
    speech_threshold: float = Field(
        0.5,
        ge=MIN_SPEECH_THRESHOLD,
        le=MAX_SPEECH_THRESHOLD,
        description="probability above which a frame is speech",
    )
    min_silence_ms: int = Field(
        500, ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS, description="silence that ends a segment"
    )
    pre_roll_ms: int = Field(
        300, ge=0, le=MAX_PRE_ROLL_MS, description="audio kept before speech starts"
    )
    transcript_hours: float = Field(
        24.0, gt=0, description="retention of the transcript bus, if nats_server is set"
    )
    max_queued_transcripts: int = Field(
        10_000, ge=1, description="messages queued for NATS; beyond, the oldest are dropped"
    )
    processor_deadline_seconds: Seconds = Field(
        30.0, gt=0, description="a session fails if no processor takes it for so long"
    )
    api_keys_file: Path | None = Field(
        None, description="YAML file (see `auricle key`); without it no authentication"
    )
    metrics_need_key: bool = Field(
        False, description="/metrics only with a key that has the scope operations"
    )
    tls_certificate: Path | None = Field(None, description="PEM file; with tls_key, serves TLS")
    tls_key: Path | None = Field(None, description="PEM file")


class DynamoFrontendSettings(CommonSettings):
    """Section `DynamoFrontend`: the unmodified `python -m dynamo.frontend`."""

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=1, le=65535)


class ProcessorSettings(CommonSettings):
    """Section `Processor`."""

    max_sessions: int = Field(64, ge=1)
    target_chunk_ms: int = Field(
        300,
        ge=10,
        description="target of the 95th percentile of the time from a chunk's audio to its text",
    )
    admission: Literal["learnt", "fixed"] = Field(
        "learnt",
        description="learnt: as many live sessions as keep the target; fixed: max_sessions",
    )
    max_buffered_seconds: Seconds = Field(
        60.0, gt=1, description="undecoded audio of a session; beyond, a push waits (backpressure)"
    )
    ahead_decodes: int = Field(
        1, ge=1, description="decodes at a time of all sessions ahead of real time"
    )
    rollback_tokens: int = Field(
        5, ge=0, description="tokens at a hypothesis' end that stay partial"
    )
    open_tokens: int = Field(
        2, ge=0, description="the last of them, which stay partial even after settled_seconds"
    )
    settled_seconds: Seconds = Field(
        1.2, gt=0, description="audio after which the others are committed if unchanged"
    )
    unfixed_chunks: int = Field(2, ge=0, description="a segment's first decodes commit nothing")
    max_tokens_per_second: float = Field(
        8.0, gt=0, description="limit of a decode's output tokens, per second of audio"
    )
    min_new_tokens: int = Field(
        16, ge=1, description="output tokens that a decode may generate however short the audio"
    )
    encode_deadline_seconds: Seconds = Field(
        20.0, gt=0, description="deadline of an encode request, per attempt"
    )
    decode_deadline_seconds: Seconds = Field(
        60.0, gt=0, description="deadline of a decode request, per attempt"
    )
    attempts: int = Field(
        4, ge=1, description="attempts of an encode or decode, on different workers if possible"
    )
    words_deadline_seconds: Seconds = Field(
        10.0, gt=0, le=120, description="words that are not there so long after a final are missing"
    )
    words_at_a_time: int = Field(
        8, ge=1, description="segments of one session that wait for their words; the next has none"
    )


class PlannerSettings(CommonSettings):
    """Section `Planner`."""

    replicas: int = Field(
        0, ge=0, le=MAX_PLANNERS, description="1 sizes the pools; 2 add a standby"
    )
    connector: Literal["local", "kubernetes", "dry-run"] = Field(
        "local", description="what scales the pools: the launcher, Kubernetes, or nothing"
    )
    profile: Path | None = Field(None, description="capacity profile; `auricle profile` writes it")
    encode: PoolLimits = PoolLimits.model_validate({})
    pd: PoolLimits = PoolLimits.model_validate({})
    gpu_budget: float | None = Field(None, gt=0, description="GPUs for both pools together")
    step_seconds: Seconds = Field(30.0, ge=1, le=300, description="interval of decisions")
    target: float = Field(
        1.0, gt=0.1, le=1, description="target utilisation, as a share of a worker's capacity"
    )
    slo: float = Field(
        0.99,
        ge=0.5,
        lt=1,
        description="share of sessions that must find a worker; the forecast's margin learns it",
    )
    ebb_seconds: Seconds = Field(
        30.0, ge=0, description="before a scale-down, fewer workers must suffice for so long"
    )
    settle_seconds: Seconds = Field(120.0, ge=0, description="no decision is reversed within it")
    deployment: str = Field("auricle", description="name of the DynamoGraphDeployment")
    kubernetes_namespace: str = Field(
        "", description="namespace of the deployment; empty: the pod's"
    )

    @model_validator(mode="after")
    def _what_the_launcher_grants(self) -> Self:
        if self.replicas and self.connector == "local":
            within_one_launcher({"encode": self.encode, "pd": self.pd})
        return self


SECTIONS: dict[str, type[CommonSettings]] = {
    "Frontend": FrontendSettings,
    "DynamoFrontend": DynamoFrontendSettings,
    "Processor": ProcessorSettings,
    "EncodeWorker": EncodeWorkerSettings,
    "PdWorker": PdWorkerSettings,
    "AlignEncodeWorker": AlignEncodeWorkerSettings,
    "AlignWorker": AlignWorkerSettings,
    "Planner": PlannerSettings,
}
