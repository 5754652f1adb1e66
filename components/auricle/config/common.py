"""Settings of all components: section `Common`. A component's section overrides them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from auricle.annotation.translation.targets import PATTERN
from auricle.config.devices import SlabSettings
from auricle.core.errors import SettingsError

_CPUINFO = Path("/proc/cpuinfo")
# x86-64's AVX512-BF16 and AMX, and ARM's extension.
_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@cache
def multiplies_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Return whether the CPU multiplies bfloat16 (otherwise float32 is faster).

    False if Linux's CPU flags cannot be read.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return False
    flags = (line.partition(":")[2] for line in lines if line.lower().startswith(("flags", "feat")))
    return bool(_BFLOAT16 & set(next(flags, "").split()))


# Bounds on replicas, for settings, the launcher and manifests. Per component: processes of one
# launcher, and initial replicas of a rendered deployment.
MAX_REPLICAS = 64
# A leader and a standby.
MAX_PLANNERS = 2
# Per pool that a planner, an HPA or KEDA scales on a cluster.
MAX_POOL_REPLICAS = 10_000


class PoolLimits(BaseModel):
    """Bounds on the replicas of one pool that a planner sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: int = Field(1, ge=1, le=MAX_POOL_REPLICAS, description="fewest workers of the pool")
    maximum: int = Field(8, ge=1, le=MAX_POOL_REPLICAS, description="most workers of the pool")
    gpus: float = Field(1.0, gt=0, description="GPUs per replica, counted against gpu_budget")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is more than maximum {self.maximum}")
        return self

    def on_one_machine(self, cores: int) -> Self:
        """Return the limits with at most a worker per core, but at least the minimum."""
        return self.model_copy(update={"maximum": min(self.maximum, max(self.minimum, cores))})


class OptionalPoolLimits(PoolLimits):
    """Bounds of an optional pool, which is empty while no session needs it."""

    minimum: int = Field(0, ge=0, le=MAX_POOL_REPLICAS, description="fewest workers of the pool")


def within_one_launcher(pools: Mapping[str, PoolLimits]) -> None:
    """Raise ValueError if a planner could request more replicas than a launcher starts."""
    for pool, limits in pools.items():
        if limits.maximum > MAX_REPLICAS:
            raise ValueError(
                f"{pool}.maximum is {limits.maximum}; with connector 'local' at most "
                f"{MAX_REPLICAS}, the processes of a component on one machine"
            )


class CommonSettings(SlabSettings):
    """Section `Common`: settings of all components."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path = Field(
        Path("models/demo"),
        description="the checkpoint: its folder, or the name of a pulled model",
    )
    align_model: Path | None = Field(
        None,
        description="the aligner's checkpoint, for the times of words: its folder or name; a "
        "forced aligner, or Whisper; the same as model to reuse the embeddings for text",
    )
    speaker_model: Path | None = Field(
        None, description="directory of the speaker model, for speaker labels"
    )
    translate_model: Path | None = Field(
        None, description="the translator's checkpoint, a text model: its folder or name"
    )
    translate_targets: tuple[Annotated[str, Field(pattern=PATTERN)], ...] = Field(
        (),
        description="target languages of translations, as ISO 639-1 codes. Empty: languages "
        "of the translator's checkpoint (translate_languages), or any",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "float32",
        description="data type of embeddings and decoder; auto, for CPUs of one machine: bfloat16 "
        "if the CPU multiplies it (AVX512-BF16, AMX), otherwise float32",
    )
    namespace: str = Field(
        "auricle",
        pattern=r"^[a-z][a-z0-9-]*$",
        description="name of the deployment; processes with the same name find each other",
    )
    discovery: Literal["file", "etcd", "kubernetes"] = Field(
        "file",
        description="how processes find each other: by a directory of one machine, by etcd, or "
        "by Kubernetes",
    )
    discovery_path: Path = Field(
        Path("build/discovery"), description="directory of the file discovery"
    )
    secret_file: Path | None = Field(
        None,
        description="secrets of the deployment, one per line: the first signs messages between "
        "processes, all are accepted. Default with the file discovery: created next to its records",
    )
    insecure_internal: bool = Field(
        False, description="without secret_file, accept messages from any sender"
    )
    etcd_endpoints: str = Field(
        "", description="addresses of etcd, such as http://HOST:2379, separated by commas"
    )
    etcd_lease_seconds: int = Field(
        150, ge=10, le=3600, description="twice the longest outage of etcd without consequences"
    )
    nats_server: str = Field(
        "",
        description="address of NATS, such as nats://HOST:4222, for the transcript bus and the "
        "event plane nats",
    )
    event_plane: Literal["zmq", "nats"] = Field(
        "zmq", description="transport of load reports: ZeroMQ, or NATS for several machines"
    )
    internal_host: IPv4Address | None = Field(
        None,
        description="address of the ports between processes. Default: 127.0.0.1 with the file "
        "discovery",
    )
    local_calls: bool = Field(True, description="use Unix sockets for calls on one machine")
    system_port: int = Field(
        0,
        ge=0,
        le=32767,  # Dynamo 1.6 reads it as a signed 16-bit number
        description="port of /health, /live and /metrics, except the frontend's; 0 for none",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="lowest level that is logged"
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="lines of text, or a JSON object per line"
    )
    log_transcripts: bool = Field(False, description="log final text")
    otlp_endpoint: str = Field(
        "",
        description="destination of traces, by OTLP over HTTP, such as "
        "http://localhost:4318/v1/traces; empty: none",
    )
    replicas: int = Field(1, ge=0, le=MAX_REPLICAS, description="processes, or pods, at start")
    load_report_seconds: float = Field(
        2.0, ge=0.1, le=60, description="interval of the load reports of a process"
    )
    liveness_seconds: float = Field(
        15.0, ge=5, le=600, description="silence after which a process is restarted"
    )
    drain_seconds: float = Field(45.0, ge=0, description="deadline of a drain after SIGTERM")
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="GPU indices; replicas take one each, in turn. Empty: each sees all GPUs"
    )
    mps: Literal["auto", "off"] = Field(
        "auto",
        description="auto: processes that share a GPU compute at the same time, through NVIDIA's "
        "MPS, which the launcher starts; a fault of one then ends all of them",
    )
    threads: int = Field(1, ge=1, le=256, description="CPU compute threads of the process")
    placement: Literal["load", "kv"] = Field(
        "load",
        description="load: a segment goes to the least loaded PD worker; kv: of about equally "
        "loaded ones, to the one whose prefix cache has most of the prompt",
    )
    block_size: int = Field(32, ge=16, description="tokens per KV block; on a CPU a multiple of 32")
    pause_after_seconds: float = Field(
        15.0, gt=1, description="length from which a segment ends at a short pause"
    )
    recording_pause_after_seconds: float | None = Field(
        None,
        gt=1,
        description="the same for recordings and for sessions without partial text; by default "
        "pause_after_seconds",
    )
    max_segment_seconds: float = Field(
        30.0, gt=1, le=300, description="length at which a segment is cut"
    )
    cut_search_seconds: float = Field(
        3.0, gt=0, description="longest time before max_segment_seconds at which the cut may lie"
    )
    context_characters: int = Field(
        200,
        ge=0,
        description="characters of the previous text that are context of a segment",
    )
    context_tokens: int = Field(512, ge=0, description="limit of a client's context or prompt")
    context_guard: bool = Field(
        True, description="decode again without a client's context if its words appear in the text"
    )

    @property
    def recorded_pause_after(self) -> float:
        """`pause_after_seconds` for recordings and for sessions without partial text."""
        own = self.recording_pause_after_seconds
        return self.pause_after_seconds if own is None else own

    @model_validator(mode="before")
    @classmethod
    def _dtype_of_this_machine(cls, values: Any) -> Any:
        """Replace `auto`, so that all processes that read the settings have the same type."""
        if not isinstance(values, dict) or values.get("dtype") != "auto":
            return values
        if (discovery := values.get("discovery", "file")) != "file":
            raise ValueError(
                f"dtype auto works on one machine only, but discovery is {discovery}: set dtype "
                "to bfloat16 or float32"
            )
        if str(values.get("device", "cpu")) != "cpu":
            raise ValueError(
                f"dtype auto works on CPUs only, but device is {values['device']}: set dtype to "
                "bfloat16"
            )
        return {**values, "dtype": "bfloat16" if multiplies_bfloat16() else "float32"}

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of this component. Raises SettingsError if none is set."""
        return self.model

    @property
    def aligns_itself(self) -> bool:
        """Whether the aligner is the model, so that it reuses the embeddings for text."""
        return self.align_model == self.model

    @property
    def aligner(self) -> Path:
        """The aligner's checkpoint. Raises SettingsError if none is set."""
        if self.align_model is None:
            raise SettingsError(
                "Common.align_model is not set, but the graph has an align pool: set it to the "
                "checkpoint of a forced aligner or of Whisper, or remove the align components"
            )
        return self.align_model

    @property
    def speakers(self) -> Path:
        """The speaker model's directory. Raises SettingsError if none is set."""
        if self.speaker_model is None:
            raise SettingsError(
                "Common.speaker_model is not set, but the graph has a diarize pool: set it to "
                "the directory of a speaker model, such as models/speakers, or remove DiarizeWorker"
            )
        return self.speaker_model

    @property
    def translator(self) -> Path:
        """The translator's checkpoint. Raises SettingsError if none is set."""
        if self.translate_model is None:
            raise SettingsError(
                "Common.translate_model is not set, but the graph has a translate pool: set it "
                "to the checkpoint of a text model, or remove TranslateWorker"
            )
        return self.translate_model
