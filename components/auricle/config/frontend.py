"""Settings of section `Frontend`: live sessions, admission, recordings. See docs/limits.md."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal, Self

from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field, model_validator

from auricle.protocol.sessions import MAX_CHUNK_MS, MIN_CHUNK_MS

# Bounds of clients' requests and of the operator's defaults.
MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD = 0.05, 0.95
MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 10_000
MAX_PRE_ROLL_MS = 2_000
SpeechThreshold = Annotated[float, Meta(ge=MIN_SPEECH_THRESHOLD, le=MAX_SPEECH_THRESHOLD)]
SilenceMs = Annotated[int, Meta(ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS)]
PreRollMs = Annotated[int, Meta(ge=0, le=MAX_PRE_ROLL_MS)]


class LiveSettings(BaseModel):
    """Address and ports, live sessions, endpointing, keys and certificate."""

    host: str = Field(
        "127.0.0.1", description="address of clients' connections; 0.0.0.0 for all of the machine's"
    )
    port: int = Field(
        8080, ge=0, le=65535, description="port of HTTP and WebSocket; 0 takes a free one"
    )
    max_sessions: int = Field(
        64, ge=1, description="live sessions of each frontend at a time; more are rejected"
    )
    default_chunk_ms: int = Field(
        640,
        ge=MIN_CHUNK_MS,
        le=MAX_CHUNK_MS,
        description="audio between two decodes, unless the client sets it",
    )
    start_timeout_seconds: float = Field(10.0, gt=0, description="deadline of the start message")
    idle_timeout_seconds: float = Field(60.0, gt=0, description="deadline of a client's next audio")
    dynamo_model: bool = Field(
        False, description="register a model that Dynamo's own frontend serves at /v1/realtime"
    )
    realtime_idle_seconds: float = Field(
        900.0, gt=0, description="deadline of a client's next event on /v1/realtime"
    )
    resume_seconds: float = Field(
        120.0, ge=0, le=3600, description="time in which a client may resume a session; 0: never"
    )
    slow_reader_seconds: float = Field(
        20.0, gt=0, description="time after which an unread event ends a client's session"
    )
    max_frame_bytes: int = Field(1 << 20, ge=1024, description="size limit of a WebSocket message")
    request_deadline_seconds: float = Field(60.0, gt=0, description="deadline of a processor push")
    ahead_seconds: float = Field(
        10.0, ge=0, description="speech ahead of real time beyond which a session yields to others"
    )
    endpointing: bool = Field(True, description="detect speech; false: decode silence too")
    speech_threshold: float = Field(
        0.5,
        ge=MIN_SPEECH_THRESHOLD,
        le=MAX_SPEECH_THRESHOLD,
        description="probability above which a frame is speech",
    )
    min_silence_ms: int = Field(
        500, ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS, description="silence that ends a segment"
    )
    recording_min_silence_ms: int | None = Field(
        None,
        ge=MIN_SILENCE_MS,
        le=MAX_SILENCE_MS,
        description="silence that ends a segment of recordings and of sessions without partial "
        "text; by default min_silence_ms",
    )
    turn_model: Path | None = Field(
        None, description="Smart Turn v3 model (ONNX) that ends turns; without it, silence does"
    )
    turn_threads: int = Field(
        1, ge=1, le=64, description="threads of the turn model; each answers 16 pauses a second"
    )
    pre_roll_ms: int = Field(
        300, ge=0, le=MAX_PRE_ROLL_MS, description="audio kept before speech starts"
    )
    transcript_hours: float = Field(
        24.0, gt=0, description="retention of the transcript bus, if nats_server is set"
    )
    max_queued_transcripts: int = Field(
        10_000, ge=1, description="messages queued for NATS; then the oldest are dropped"
    )
    processor_deadline_seconds: float = Field(
        30.0, gt=0, description="time without a processor after which a session fails"
    )
    api_keys_file: Path | None = Field(
        None, description="YAML file (see `auricle key`); without it no authentication"
    )
    access_log: bool = Field(
        False, description="log a line for each request: method, path, status, time, tenant, id"
    )
    metrics_need_key: bool = Field(
        False, description="serve /metrics only to a key with the scope operations"
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file of the certificate; with tls_key, TLS is served"
    )
    tls_key: Path | None = Field(None, description="PEM file of its private key")


# Services whose clients' model names are known.


class DoorSettings(BaseModel):
    """Model names, other ports; bounds of connections, requests and uploads."""

    model_aliases: tuple[str, ...] = Field(
        (), description="further model names that clients may use, such as whisper-1"
    )
    model_names: Literal["default", "strict"] = Field(
        "default",
        description="`default`: the model is also used, with a warning, for the names that SDKs of "
        "hosted services send by default, such as nova-3; `strict`: these are refused, too",
    )
    cors_origins: tuple[str, ...] = Field(
        (), description="further origins whose web pages may connect; `*` for all"
    )
    allowed_hosts: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(
        (),
        description="names by which clients reach the server, in addition to its addresses and "
        "localhost; `*.example.com` for all below it, `*` for any. By default any, but without API "
        "keys none if host is a loopback address",
    )
    page: bool = Field(True, description="serve the pages: live captions at /, operations at /ops")
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="networks of proxies whose X-Forwarded-For names the client; their own "
        "connections are not counted by address",
    )
    max_connections: int = Field(8192, ge=1, description="open connections of each frontend")
    max_connections_per_address: int = Field(
        2048, ge=0, description="open connections of one address to each frontend; 0 for no limit"
    )
    max_unadmitted_bytes: int = Field(
        256 << 20,
        ge=4 << 20,
        description="bytes held for requests that were not admitted; an eighth for one address",
    )
    max_connections_per_key: int = Field(
        0,
        ge=0,
        description="sessions and recordings of a tenant at a time, at each frontend; 0 for no "
        "limit. max_sessions of its key holds over all frontends",
    )
    max_handshakes_per_address: float = Field(
        100.0,
        ge=0,
        description="requests of one address per second, and its new connections, at each "
        "frontend; 0 for no limit",
    )
    max_handshakes_per_key: float = Field(
        100.0,
        ge=0,
        description="sessions and recordings of a tenant per second, at each frontend; 0 for no "
        "limit",
    )
    header_timeout_seconds: float = Field(
        10.0, gt=0, description="deadline of a TLS handshake, and of a request's line and headers"
    )
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="port of the gRPC services; null: none, 0: a free one"
    )
    grpc_max_message_bytes: int = Field(
        16 << 20, ge=1 << 16, le=1 << 28, description="size limit of a gRPC message"
    )
    keep_alive_seconds: float = Field(
        15.0, gt=0, description="deadline of the next request of an HTTP connection"
    )
    listen_idle_seconds: float = Field(
        10.0, gt=0, description="deadline of the next audio or KeepAlive of Deepgram's clients"
    )
    max_channels: int = Field(
        8,
        ge=1,
        le=32,
        description="separately transcribed channels of a connection or a recording",
    )
    wyoming_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of Wyoming (Home Assistant), on host; null: not served",
    )
    audiosocket_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of AudioSocket (Asterisk), on host; null: not served",
    )
    keyless_tenant: str | None = Field(
        None,
        description="tenant of clients of protocols without keys (Wyoming, AudioSocket); required "
        "if keys are configured",
    )
    max_uploads: int = Field(256, ge=1, description="uploads in progress at each frontend")
    max_uploads_per_address: int = Field(
        128, ge=0, description="uploads in progress of one address at each frontend; 0 for no limit"
    )
    max_uploads_per_key: int = Field(
        128, ge=0, description="uploads in progress of a tenant at each frontend; 0 for no limit"
    )
    min_upload_bytes_per_second: float = Field(
        1000.0, ge=0, description="mean over upload_window_seconds; slower uploads are ended"
    )
    upload_window_seconds: float = Field(
        15.0, gt=0, description="time over which the rate of an upload is measured"
    )
    upload_deadline_seconds: float = Field(
        3600.0, gt=0, description="deadline of one upload in all"
    )

    @property
    def keyless_ports(self) -> dict[str, int]:
        """The ports of protocols without keys, by protocol."""
        ports = {"wyoming": self.wyoming_port, "audiosocket": self.audiosocket_port}
        return {name: number for name, number in ports.items() if number is not None}


class RecordingSettings(BaseModel):
    """Bounds of uploads, recordings and their decoding."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_recordings: int = Field(
        256, ge=1, description="complete uploads in progress or queued, at each frontend"
    )
    max_upload_bytes: int = Field(512 << 20, ge=1024, description="size limit of a request")
    max_stored_upload_bytes: int = Field(
        8 << 30,
        ge=2048,
        description="size of all uploads on disk at a time, of each frontend and of jobs_folder; "
        "one client's at most half of it",
    )
    upload_timeout_seconds: float = Field(
        30.0, gt=0, description="deadline of an upload's next bytes"
    )
    max_recording_seconds: float = Field(
        4 * 3600.0, gt=0, description="length limit of one recording"
    )
    max_recording_tracks: int = Field(
        64, ge=1, description="tracks of a recording, audio or not; one is decoded"
    )
    max_recording_channel_rate: int = Field(
        1_536_000, ge=4_000, description="samples per second of all channels of a recording"
    )
    max_recording_packets_per_second: int = Field(
        500, ge=50, description="packets of a recording per second of its audio"
    )
    decoding_processes: int = Field(
        4,
        ge=1,
        le=64,
        description="concurrent low-priority processes that decode recordings; one more is idle",
    )
    decoding_processes_per_client: int | None = Field(
        None,
        ge=1,
        description="decoding processes that one API key may use at a time, or one address if no "
        "keys are configured. Default: all but one",
    )
    require_seccomp: bool = Field(
        False, description="do not start if decoding processes cannot have a seccomp filter"
    )
    max_decoding_cpu_seconds: int = Field(
        600, ge=1, description="CPU time limit of decoding one recording"
    )
    max_decoding_seconds: float = Field(
        1800.0, gt=0, description="time for which decoding may delay one recording's parts"
    )
    max_decoding_memory_gib: int = Field(
        1, ge=1, description="memory limit of decoding one recording"
    )
    recording_parts_in_flight: int = Field(
        2, ge=1, description="parts transcribed at a time, of all recordings"
    )
    jobs_folder: Path | None = Field(
        None,
        description="folder of jobs: recordings that are transcribed after the request; several "
        "frontends may share it. Jobs are off by default",
    )
    job_hours: float = Field(
        24.0,
        gt=0,
        le=24 * 366,
        description="time for which the answer of a job is kept, and in which it must begin",
    )
    max_jobs: int = Field(
        10_000,
        ge=2,
        le=100_000,
        description="jobs in jobs_folder, with those that have ended; one client's at most half",
    )
    max_running_jobs: int = Field(
        4,
        ge=1,
        le=256,
        description="jobs that each frontend runs at a time; one client's at most all but one",
    )
    job_lease_seconds: float = Field(
        30.0,
        ge=1,
        le=3600,
        description="time without a sign of life of a job's frontend after which another one runs "
        "the job",
    )

    @model_validator(mode="after")
    def _room_for_the_largest_upload(self) -> Self:
        if self.max_stored_upload_bytes < 2 * self.max_upload_bytes:
            raise ValueError(
                f"max_stored_upload_bytes is {self.max_stored_upload_bytes}, but must be at least "
                f"twice max_upload_bytes ({self.max_upload_bytes}), because one client may have "
                "half of it"
            )
        return self

    @property
    def most_decoding_processes_per_client(self) -> int:
        """`decoding_processes_per_client`, or its default: all but one, at least one."""
        return self.decoding_processes_per_client or max(1, self.decoding_processes - 1)
