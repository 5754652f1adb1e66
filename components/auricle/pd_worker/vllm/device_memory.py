"""Whether what an engine's process is to hold fits into its part of a GPU. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auricle.checkpoint.geometry import kv_values_per_token
from auricle.embeddings.layout import ITEM_BYTES
from auricle.errors import SettingsError
from auricle.pd_worker.vllm.device_passes import Device
from auricle.worker_settings import DecoderSettings

_GIB = 1 << 30
_ABOUT_MEMORY = ("memory", "KV cache", "cache blocks")


def kv_block_bytes(text_config: Mapping[str, Any], settings: DecoderSettings) -> int:
    """Return the size of a block of the KV cache."""
    return kv_values_per_token(text_config) * ITEM_BYTES[settings.dtype] * settings.block_size


def check_share(
    settings: DecoderSettings, block_bytes: int, weight_bytes: int, gpu_bytes: int
) -> None:
    """Raise SettingsError if `kv_blocks` and the weights are more than this process's share.

    vLLM takes `kv_blocks` by its word: the process that loads next would not find its share.
    """
    if settings.kv_blocks is None:
        return  # vLLM takes what is left of the share
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


def with_settings(said: str, settings: DecoderSettings, device: Device) -> str:
    """Return what vLLM said, with the settings that decide, if it is about memory.

    vLLM names its own.
    """
    if not any(text in said for text in _ABOUT_MEMORY):
        return said
    size = f"kv_blocks is {settings.kv_blocks or 'not set'}"
    if device == "cpu":
        size = f"kv_cache_gib is {settings.kv_cache_gib}, {size}"
    else:
        size = f"this process may have {_share(settings)} of the GPU, {size}"
    return (
        f"{said} (Of {settings.component}: {size}, max_model_len {settings.max_model_len}, "
        f"max_batched_tokens {settings.max_batched_tokens or 'not set'}.)"
    )


def _share(settings: DecoderSettings) -> str:
    if settings.processes_per_device == 1:
        return f"gpu_memory_share {settings.gpu_memory_share:g}"
    return (
        f"gpu_memory_share {settings.gpu_memory_share:g} / processes_per_device "
        f"{settings.processes_per_device}"
    )
