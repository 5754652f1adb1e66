"""Settings of devices: passes, memory shares, and the location of embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

# They load one after the other; the launcher waits longer for more of them.
_MAX_PROCESSES = 4
_PIECES = ("piecewise", "full_and_piecewise")

EngineName = Literal["vllm", "transformers", "sglang", "ctranslate2"]
TextEngineName = Literal["vllm", "sglang"]
ComputeType = Literal["float32", "int8"]
CompilationMode = Literal["none", "vllm_compile"]
CudaGraphMode = Literal["none", "piecewise", "full", "full_decode_only", "full_and_piecewise"]


class PassSettings(BaseModel):
    """How vLLM runs the decoder's passes. The default of unset ones depends on the device."""

    enforce_eager: bool | None = Field(
        None, description="run passes without compilation and CUDA graphs. Default: true on a CPU"
    )
    max_batched_tokens: int | None = Field(
        None,
        ge=256,
        description="tokens of one pass, and embeddings that vLLM keeps for passes. Default: 8192 "
        "on a GPU, vLLM's on a CPU",
    )
    compilation_mode: CompilationMode = Field(
        "none",
        description="compilation of passes; vllm_compile: by Inductor, minutes at the first start",
    )
    cudagraph_mode: CudaGraphMode | None = Field(
        None, description="passes that are CUDA graphs, by vLLM's names. Default: full on a GPU"
    )
    max_cudagraph_capture_size: int = Field(
        1024, ge=1, description="tokens of the largest pass with a CUDA graph"
    )
    cudagraph_capture_sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="tokens of passes with a CUDA graph. Empty: vLLM's sizes up to the largest"
    )
    attention_backend: str | None = Field(
        None,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="vLLM's name of a backend, such as FLASH_ATTN or TRITON_ATTN. Default: vLLM "
        "chooses; TRITON_ATTN on GPUs with FlashAttention 2 only",
    )
    async_scheduling: bool = Field(
        False, description="schedule a pass during the previous one; on a GPU, without drafts"
    )

    @model_validator(mode="after")
    def _passes_that_vllm_has(self) -> Self:
        graphs = self.cudagraph_mode
        if self.enforce_eager and (graphs not in (None, "none") or self.compilation_mode != "none"):
            raise ValueError(
                "enforce_eager excludes compilation and CUDA graphs, but compilation_mode is "
                f"{self.compilation_mode} and cudagraph_mode {graphs or 'not set'}: unset one or "
                "the others"
            )
        if graphs in _PIECES and self.compilation_mode == "none":
            raise ValueError(
                f"cudagraph_mode {graphs} needs compilation_mode vllm_compile, which divides the "
                "model into pieces: set it, or use full or full_decode_only"
            )
        if graphs == "none" and self.cudagraph_capture_sizes:
            raise ValueError(
                "cudagraph_capture_sizes needs CUDA graphs, but cudagraph_mode is none: unset one "
                "of them"
            )
        return self


class DeviceSettings(PassSettings):
    """A device's memory, its division between processes, and the KV cache."""

    gpu_memory_share: float = Field(
        0.85,
        gt=0,
        le=1,
        description="share of a GPU for vLLM or SGLang, for all processes of the pool on it "
        "together",
    )
    processes_per_device: int = Field(
        1,
        ge=1,
        le=_MAX_PROCESSES,
        description="processes of the pool that share a device, in equal parts",
    )
    kv_cache_gib: int = Field(
        1, ge=1, description="size of a process's KV cache on a CPU; for transformers on any device"
    )
    kv_blocks: int | None = Field(
        None, ge=8, description="blocks of a process's KV cache; overrides its size"
    )

    @property
    def process_memory_share(self) -> float:
        """The share of a GPU's memory that one process may have."""
        return self.gpu_memory_share / self.processes_per_device


# Engines that take a share of a GPU's memory. The KV cache gets the rest of it.
SHARING_GPUS = ("vllm", "sglang")


def without_drafts(async_scheduling: bool, draft_tokens: int) -> None:
    """Raise ValueError for async scheduling with drafts, which depend on the previous pass."""
    if async_scheduling and draft_tokens:
        raise ValueError(
            f"async_scheduling is on and draft_tokens {draft_tokens}, but a draft depends on the "
            "previous pass: set draft_tokens to 0, or async_scheduling to false"
        )


def only_of_vllm(engine: EngineName, settings: DeviceSettings) -> None:
    """Raise ValueError if a setting of vLLM is set for another `engine`."""
    if engine == "vllm":
        return
    shares = () if engine in SHARING_GPUS else ("gpu_memory_share",)
    for name in (*PassSettings.model_fields, *shares):
        if (value := getattr(settings, name)) != DeviceSettings.model_fields[name].default:
            raise ValueError(
                f"{name} is {value}, a setting of vLLM, but engine is {engine}: unset one of them"
            )


def within_devices(replicas: int, gpus: Sequence[int], processes_per_device: int) -> None:
    """Raise ValueError if a GPU gets more processes than may share it.

    Replicas take the indices `gpus` in turn; without any, their GPUs are unknown here.
    """
    placed = Counter(gpus[number % len(gpus)] for number in range(replicas)) if gpus else Counter()
    for gpu, count in placed.items():
        if count > processes_per_device:
            raise ValueError(
                f"processes_per_device is {processes_per_device}, but replicas {replicas} on "
                f"gpus {list(gpus)} are {count} processes on GPU {gpu}; raise "
                f"processes_per_device to {count}, so that they share its memory, or name more gpus"
            )


SlabChoice = Literal["auto", "host", "device"]


class SlabSettings(BaseModel):
    """The location of embeddings: part of section `Common`."""

    slab: SlabChoice = Field(
        "auto",
        description="location of a worker's embeddings: host memory, or its GPU (device), from "
        "where transfers bypass the host; auto: a GPU if NIXL can reach it",
    )


class EncoderDeviceSettings(SlabSettings):
    """The encoder's device."""

    device: str = Field("cpu", description="torch device of the encoder")

    @model_validator(mode="after")
    def _slab_on_device(self) -> Self:
        if self.slab == "device" and not self.device.startswith("cuda"):
            raise ValueError(
                f"slab is device, but device is {self.device}: set device to cuda, or slab to "
                "auto or host"
            )
        return self
