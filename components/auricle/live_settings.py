"""Settings of the frontend's live sessions, keys and certificate; part of its section."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta
from pydantic import BaseModel, Field

from auricle.messages.sessions import MAX_CHUNK_MS, MIN_CHUNK_MS

# Bounds of what a client may request and of an operator's defaults.
MIN_SPEECH_THRESHOLD, MAX_SPEECH_THRESHOLD = 0.05, 0.95
MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 10_000
MAX_PRE_ROLL_MS = 2_000
SpeechThreshold = Annotated[float, Meta(ge=MIN_SPEECH_THRESHOLD, le=MAX_SPEECH_THRESHOLD)]
SilenceMs = Annotated[int, Meta(ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS)]
PreRollMs = Annotated[int, Meta(ge=0, le=MAX_PRE_ROLL_MS)]


class LiveSettings(BaseModel):
    """Where clients are served, what a live session may take, and where speech begins and ends."""

    host: str = Field(
        "127.0.0.1", description="address that clients reach; 0.0.0.0 for all of the machine's"
    )
    port: int = Field(
        8080, ge=0, le=65535, description="port of HTTP and WebSocket; 0 takes a free one"
    )
    max_sessions: int = Field(
        64, ge=1, description="live sessions at a time; beyond, clients are refused"
    )
    default_chunk_ms: int = Field(
        640,
        ge=MIN_CHUNK_MS,
        le=MAX_CHUNK_MS,
        description="audio between two decodes, if the client does not say",
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
        120.0, ge=0, le=3600, description="a client may resume a session for so long; 0: never"
    )
    slow_reader_seconds: float = Field(
        20.0, gt=0, description="a client's session ends if an event stays unread this long"
    )
    max_frame_bytes: int = Field(1 << 20, ge=1024, description="size limit of a WebSocket message")
    request_deadline_seconds: float = Field(60.0, gt=0, description="deadline of a processor push")
    ahead_seconds: float = Field(
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
    recording_min_silence_ms: int | None = Field(
        None,
        ge=MIN_SILENCE_MS,
        le=MAX_SILENCE_MS,
        description="silence that ends a segment where nobody waits for text: of recordings, and "
        "of sessions without partial text; by default min_silence_ms",
    )
    turn_model: Path | None = Field(
        None, description="Smart Turn v3 model (ONNX), which ends turns; without it, silence does"
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
        10_000, ge=1, description="messages queued for NATS; beyond, the oldest are dropped"
    )
    processor_deadline_seconds: float = Field(
        30.0, gt=0, description="a session fails if no processor takes it for so long"
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
