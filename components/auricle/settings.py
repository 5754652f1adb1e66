"""All settings of the components; an unknown key or bad value is refused by name and file."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from auricle.device_settings import only_of_vllm, within_devices, without_drafts
from auricle.door_settings import DoorSettings
from auricle.messages import MAX_CHUNK_MS, MIN_CHUNK_MS
from auricle.planner_settings import PlannerOptions
from auricle.recording_settings import RecordingSettings
from auricle.replicas import MAX_REPLICAS
from auricle.slab_settings import SlabSettings
from auricle.worker_settings import EncodeWorkerOptions, PdWorkerOptions

Seconds = float
# Bounds of what a client may request and of an operator's defaults.
MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD = 0.05, 0.95
MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 10_000
MAX_PRE_ROLL_MS = 2_000


class CommonSettings(SlabSettings):
    """Section `Common`: settings of all components."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path = Field(Path("models/demo"), description="checkpoint directory")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="data type of embeddings and decoder"
    )
    namespace: str = Field("auricle", pattern=r"^[a-z][a-z0-9-]*$")
    discovery: Literal["file", "etcd", "kubernetes"] = "file"
    discovery_path: Path = Field(
        Path("build/discovery"), description="directory, if discovery is file"
    )
    secret_file: Path | None = Field(
        None,
        description="secrets of the deployment, one per line: the first seals messages between "
        "processes, all are accepted. Default with the file discovery: made beside its records",
    )
    insecure_internal: bool = Field(
        False, description="without secret_file, take messages of whoever reaches a process"
    )
    etcd_endpoints: str = ""
    etcd_lease_seconds: int = Field(
        150, ge=10, le=3600, description="etcd may be away for half as long without consequences"
    )
    nats_server: str = ""
    event_plane: Literal["zmq", "nats"] = "zmq"
    internal_host: IPv4Address | None = Field(
        None, description="of the ports between processes; 127.0.0.1 with the file discovery"
    )
    local_calls: bool = Field(True, description="calls on one machine take Unix sockets")
    system_port: int = Field(
        0,
        ge=0,
        le=32767,  # Dynamo 1.6 reads it as a signed 16-bit number
        description="port of /health, /live and /metrics, except the frontend's; 0 for none",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"
    log_transcripts: bool = Field(False, description="log final text")
    otlp_endpoint: str = Field(
        "", description="for traces, OTLP over HTTP, e.g. http://localhost:4318/v1/traces"
    )
    replicas: int = Field(1, ge=0, le=MAX_REPLICAS, description="processes, or pods, at start")
    load_report_seconds: Seconds = Field(
        2.0, ge=0.1, le=60, description="interval of the load reports of a process"
    )
    liveness_seconds: Seconds = Field(
        15.0, ge=5, le=600, description="a process that does not answer for so long is restarted"
    )
    drain_seconds: Seconds = Field(45.0, ge=0, description="deadline of draining, after SIGTERM")
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="GPU indices; replicas take one each, in turn. Empty: each sees all GPUs"
    )
    threads: int = Field(1, ge=1, le=256, description="CPU compute threads of the process")
    placement: Literal["load", "kv"] = Field(
        "load",
        description="segments go to the least loaded PD worker; with kv, among about equally "
        "loaded ones to the one whose prefix cache has most of the prompt",
    )
    block_size: int = Field(32, ge=16, description="tokens per KV block; on a CPU a multiple of 32")
    pause_after_seconds: Seconds = Field(
        15.0, gt=1, description="length from which a segment ends at a short pause"
    )
    max_segment_seconds: Seconds = Field(
        30.0, gt=1, le=300, description="length at which a segment is cut"
    )
    cut_search_seconds: Seconds = Field(
        3.0, gt=0, description="how far before that the cut may lie"
    )
    context_characters: int = Field(
        200, ge=0, description="end of the committed text that is context of the next segment"
    )
    context_tokens: int = Field(512, ge=0, description="limit of a client's context or prompt")
    context_guard: bool = Field(
        True, description="decode without a client's context where that put words into the text"
    )


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


class EncodeWorkerSettings(EncodeWorkerOptions, CommonSettings):
    """Section `EncodeWorker`."""


class PdWorkerSettings(PdWorkerOptions, CommonSettings):
    """Section `PdWorker`."""

    @model_validator(mode="after")
    def _shares_of_devices(self) -> Self:
        within_devices(self.replicas, self.gpus, self.processes_per_device)
        without_drafts(self.async_scheduling, self.draft_tokens)
        only_of_vllm(self.engine, self, self.placement)
        return self


class PlannerSettings(PlannerOptions, CommonSettings):
    """Section `Planner`."""


SECTIONS: dict[str, type[CommonSettings]] = {
    "Frontend": FrontendSettings,
    "DynamoFrontend": DynamoFrontendSettings,
    "Processor": ProcessorSettings,
    "EncodeWorker": EncodeWorkerSettings,
    "PdWorker": PdWorkerSettings,
    "Planner": PlannerSettings,
}
