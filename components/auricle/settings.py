"""Every setting, validated at the edge; an unknown key or bad value names itself and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from auricle.messages import MAX_CHUNK_MS, MIN_CHUNK_MS

Seconds = float
# What a client may ask for, and an operator set as default.
MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD = 0.05, 0.95
MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 10_000
MAX_PRE_ROLL_MS = 2_000
MAX_CONTEXT_CHARACTERS = 2_000


class CommonSettings(BaseModel):
    """What all components share; section `Common`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path = Field(Path("models/demo"), description="checkpoint directory")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="of embeddings and decoder"
    )
    namespace: str = Field("auricle", pattern=r"^[a-z][a-z0-9-]*$")
    discovery: Literal["file", "etcd", "kubernetes"] = "file"
    discovery_path: Path = Field(
        Path("build/discovery"), description="directory of the file discovery"
    )
    etcd_endpoints: str = ""
    nats_server: str = ""
    event_plane: Literal["zmq", "nats"] = "zmq"
    system_port: int = Field(
        0,
        ge=0,
        le=32767,  # Dynamo 1.6 reads it as a signed 16-bit number
        description="/health, /live, /metrics of a worker; 0 for none",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"
    log_transcripts: bool = Field(False, description="final text is logged too")
    otlp_endpoint: str = Field(
        "", description="traces by OTLP over HTTP, such as http://localhost:4318/v1/traces"
    )
    replicas: int = Field(1, ge=0, le=64, description="processes the launcher starts")
    load_report_seconds: Seconds = Field(
        2.0, ge=0.1, le=60, description="between two reports of a process's load"
    )
    drain_seconds: Seconds = Field(
        45.0, ge=0, description="a process told to go (SIGTERM) may still finish what it holds"
    )
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="by number; each replica sees one of them, in turn. Without: all of them"
    )
    threads: int = Field(1, ge=1, le=256, description="compute threads of the process")
    placement: Literal["load", "kv"] = Field(
        "load",
        description="of segments: on the emptiest PD worker, or among such where its context is",
    )
    block_size: int = Field(32, ge=16, description="tokens per KV block; the CPU wants 32·n")
    pause_after_seconds: Seconds = Field(
        15.0, gt=1, description="a segment ends at a short pause from here"
    )
    max_segment_seconds: Seconds = Field(
        30.0, gt=1, le=300, description="a segment is cut near here at the latest"
    )
    cut_search_seconds: Seconds = Field(3.0, gt=0, description="how far back a cut may lie")


class FrontendSettings(CommonSettings):
    """Section `Frontend`."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535, description="0 takes a free port")
    max_sessions: int = Field(64, ge=1)
    default_chunk_ms: int = Field(640, ge=MIN_CHUNK_MS, le=MAX_CHUNK_MS)
    start_timeout_seconds: Seconds = Field(10.0, gt=0, description="until the start message")
    idle_timeout_seconds: Seconds = Field(60.0, gt=0, description="without audio from the client")
    dynamo_model: bool = Field(
        False, description="also serve Dynamo's own frontend, as a model of its /v1/realtime"
    )
    realtime_idle_seconds: Seconds = Field(
        900.0, gt=0, description="a /v1/realtime connection without an event from its client"
    )
    slow_reader_seconds: Seconds = Field(
        20.0, gt=0, description="a client may leave an event unread, then its session is ended"
    )
    max_frame_bytes: int = Field(1 << 20, ge=1024, description="one WebSocket message")
    request_deadline_seconds: Seconds = Field(60.0, gt=0, description="one push to the processor")
    endpointing: bool = Field(
        True, description="find speech; if false, silence is decoded like speech"
    )
    speech_threshold: float = Field(
        0.5, ge=MIN_SPEECH_THRESHOLD, le=MAX_SPEECH_THRESHOLD, description="speech probability"
    )
    min_silence_ms: int = Field(
        500, ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS, description="silence that ends a segment"
    )
    pre_roll_ms: int = Field(
        300, ge=0, le=MAX_PRE_ROLL_MS, description="audio kept before speech starts"
    )
    transcript_hours: float = Field(
        24.0, gt=0, description="text stays on the transcript bus, where nats_server is set"
    )
    max_queued_transcripts: int = Field(
        10_000, ge=1, description="messages waiting for NATS; beyond, the oldest are dropped"
    )
    max_queued_seconds: Seconds = Field(
        600.0, gt=1, description="audio of all sessions waiting for voice activity; beyond, refused"
    )
    processor_deadline_seconds: Seconds = Field(
        30.0, gt=0, description="a session waits so long for a processor before it fails"
    )
    model_aliases: tuple[str, ...] = Field(
        (), description="other names clients may call the model by, such as whisper-1"
    )
    api_keys_file: Path | None = Field(
        None, description="YAML made with `auricle key`; without keys everybody is let in"
    )
    cors_origins: tuple[str, ...] = Field(
        (), description="web pages of these origins may call; none by default"
    )
    tls_certificate: Path | None = Field(None, description="PEM; with tls_key, serve TLS")
    tls_key: Path | None = Field(None, description="PEM")
    max_recordings: int = Field(256, ge=1, description="uploads in work or waiting")
    max_upload_bytes: int = Field(512 << 20, ge=1024, description="one request")
    upload_timeout_seconds: Seconds = Field(30.0, gt=0, description="without bytes of an upload")
    max_recording_seconds: Seconds = Field(4 * 3600.0, gt=0, description="audio of one recording")
    decoding_processes: int = Field(
        2, ge=1, le=64, description="recordings decoded at a time, in low-priority processes"
    )
    max_decoding_cpu_seconds: int = Field(
        900, ge=1, description="CPU that decoding one recording may take"
    )
    max_decoding_memory_gib: int = Field(4, ge=1, description="memory of a decoding process")
    recording_parts_in_flight: int = Field(
        2, ge=1, description="parts of all recordings transcribed at a time"
    )


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
        description="from a chunk's audio to its text, for 95 of 100 chunks; short of it no "
        "more sessions are let in",
    )
    assured_sessions: int = Field(
        8, ge=1, description="live sessions that may begin all at once; more are let in by and by"
    )
    max_buffered_seconds: Seconds = Field(
        60.0, gt=1, description="audio of a session received and not decoded; a push waits beyond"
    )
    rollback_tokens: int = Field(5, ge=0, description="tail of a hypothesis that stays partial")
    open_tokens: int = Field(
        2, ge=0, description="tail that stays partial even if it has not changed for a while"
    )
    settled_seconds: Seconds = Field(
        1.2, gt=0, description="of audio over which the rest of the tail must not have changed"
    )
    unfixed_chunks: int = Field(
        2, ge=0, description="first decodes of a segment that commit nothing"
    )
    context_characters: int = Field(
        200, ge=0, description="of the last committed text, given as context to the next segment"
    )
    max_tokens_per_second: float = Field(
        8.0, gt=0, description="of audio; bounds a decode's output"
    )
    min_new_tokens: int = Field(
        16, ge=1, description="a decode may write at least so many tokens, however short the audio"
    )
    encode_deadline_seconds: Seconds = Field(20.0, gt=0)
    decode_deadline_seconds: Seconds = Field(60.0, gt=0)
    attempts: int = Field(
        4, ge=1, description="of an encode or decode, each on another worker if possible"
    )


class EncodeWorkerSettings(CommonSettings):
    """Section `EncodeWorker`."""

    slots: int = Field(256, ge=2, description="windows the slab holds")
    conv_blocks: int = Field(
        2048, ge=8, description="finished seconds of growing windows whose conv output is kept"
    )
    max_batch_windows: int = Field(8, ge=1)
    max_queued_windows: int = Field(256, ge=1, description="beyond, requests are refused")
    lease_seconds: Seconds = Field(30.0, gt=0)
    device: str = "cpu"


class PdWorkerSettings(CommonSettings):
    """Section `PdWorker`."""

    landing_slots: int = Field(256, ge=2)
    read_deadline_seconds: Seconds = Field(5.0, gt=0)
    max_requests: int = Field(32, ge=2, description="in flight; beyond, requests are refused")
    max_model_len: int = Field(2048, ge=256)
    kv_cache_gib: int = Field(1, ge=1, description="on a CPU")
    gpu_memory_share: float = Field(0.85, gt=0, le=1)
    kv_blocks: int | None = Field(None, ge=8, description="KV blocks, whatever memory there is")
    limit_reuse: bool = Field(
        True, description="keep KV only of finished windows; the rest is never asked for again"
    )
    draft_tokens: int = Field(
        8, ge=0, le=64, description="of the last hypothesis, verified in one pass; 0 for none"
    )
    enforce_eager: bool = True


class PoolLimits(BaseModel):
    """Of one pool, what a planner may do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: int = Field(1, ge=1, le=10_000)
    maximum: int = Field(8, ge=1, le=10_000)
    gpus: float = Field(1.0, gt=0, description="a replica takes of gpu_budget")


class PlannerSettings(CommonSettings):
    """Section `Planner`."""

    replicas: int = Field(0, ge=0, le=2, description="1 to have the pools sized; 2 take turns")
    connector: Literal["local", "kubernetes", "dry-run"] = Field(
        "local", description="who starts and drains workers: the launcher, Kubernetes or nobody"
    )
    profile: Path | None = Field(None, description="capacities; `auricle profile` writes it")
    encode: PoolLimits = PoolLimits.model_validate({})
    pd: PoolLimits = PoolLimits.model_validate({})
    gpu_budget: float | None = Field(None, gt=0, description="GPUs for both pools together")
    step_seconds: Seconds = Field(30.0, ge=1, le=300, description="between two decisions")
    target: float = Field(
        1.0, gt=0.1, le=1, description="of what the profile says a worker carries, what it is given"
    )
    quantile: float = Field(
        0.65, ge=0.5, lt=1, description="of the forecasts' errors, how many are provided for"
    )
    ebb_seconds: Seconds = Field(
        30.0, ge=0, description="so long fewer workers must have been enough before any leaves"
    )
    settle_seconds: Seconds = Field(120.0, ge=0, description="no decision is reversed sooner")
    deployment: str = Field("auricle", description="name of the DynamoGraphDeployment")
    kubernetes_namespace: str = Field("", description="of the deployment; by default the pod's")


class KubernetesSettings(BaseModel):
    """Section `Kubernetes`: what `auricle render` needs to know of the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field("auricle", pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    namespace: str = Field("auricle", pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    image: str = Field("auricle:gpu", description="deploy/docker/Dockerfile, target gpu")
    dynamo_version: str = Field("1.6.1", description="in the image; its tag does not say so")
    platform_namespace: str = Field("dynamo-system", description="of the Dynamo platform, NATS")
    monitoring_namespace: str = Field("monitoring", description="Prometheus may ask from there")
    autoscaling: Literal["planner", "none"] = Field(
        "planner", description="who sizes the pools; overlays have an HPA and KEDA instead"
    )
    model_repository: str = Field("", description="of the Hugging Face hub, filled in once")
    model_claim: str = Field("auricle-models", description="volume with checkpoints, at /models")
    model_claim_size: str = "20Gi"
    storage_class: str = Field("", description="that many nodes can mount; empty: the default")
    hub_token_secret: str = Field("auricle-hub-token", description="with key `token`; optional")
    api_keys_secret: str = Field(
        "", description="with key `keys.yaml`, made with `auricle key`; empty: everybody is let in"
    )
    hidden_size: int = Field(
        1024, ge=1, description="of an embedding, where the checkpoint is not here to be read"
    )
    window_embeddings: int = Field(104, ge=1, description="likewise")
    gpu_resource: str = "nvidia.com/gpu"
    rdma_resource: str = Field("rdma/ib", description="empty: TCP between nodes")
    profile: Path | None = Field(None, description="for the planner; `auricle profile` writes it")


SECTIONS: dict[str, type[CommonSettings]] = {
    "Frontend": FrontendSettings,
    "DynamoFrontend": DynamoFrontendSettings,
    "Processor": ProcessorSettings,
    "EncodeWorker": EncodeWorkerSettings,
    "PdWorker": PdWorkerSettings,
    "Planner": PlannerSettings,
}
