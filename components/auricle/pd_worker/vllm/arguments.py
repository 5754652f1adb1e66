"""Parts of vLLM's configuration that are structures of their own."""

from __future__ import annotations

from typing import Any

from vllm.config import CompilationConfig, KVEventsConfig
from vllm.config.compilation import CompilationMode, CUDAGraphMode

from auricle.pd_worker.vllm.options import Passes

_SCHEDULERS = "auricle.pd_worker.vllm.scheduler"
WORKER = "auricle.pd_worker.vllm.device_worker.DeviceWorker"


def kv_events(address: str) -> KVEventsConfig:
    """Return the configuration that publishes KV events at `address`; empty for none."""
    return KVEventsConfig(
        enable_kv_cache_events=bool(address),
        publisher="zmq" if address else "null",
        endpoint=address,
    )


def scheduler_class(passes: Passes) -> str:
    """Return the name of our scheduler: vLLM's two do not replace each other."""
    kind = "AsyncSessionScheduler" if passes.async_scheduling else "SessionScheduler"
    return f"{_SCHEDULERS}.{kind}"


def of_passes(passes: Passes, *, enforce_eager: bool) -> dict[str, Any]:
    """Return the arguments that say how passes run, and how large they are."""
    arguments: dict[str, Any] = {
        "enforce_eager": enforce_eager,
        "max_num_batched_tokens": passes.max_batched_tokens,
        # Not left to vLLM, which would schedule ahead under a scheduler that cannot.
        "async_scheduling": passes.async_scheduling,
        "scheduler_cls": scheduler_class(passes),
    }
    if passes.attention_backend is not None:
        arguments["attention_backend"] = passes.attention_backend
    if not enforce_eager:
        arguments["compilation_config"] = compilation(passes)
    return arguments


def compilation(passes: Passes) -> CompilationConfig:
    """Return what is compiled, and which passes are CUDA graphs."""
    graphs = CUDAGraphMode[passes.cudagraph_mode.upper()]
    arguments: dict[str, Any] = {
        "mode": CompilationMode[passes.compilation_mode.upper()],
        "cudagraph_mode": graphs,
    }
    if graphs != CUDAGraphMode.NONE:
        if passes.capture_sizes:
            arguments["cudagraph_capture_sizes"] = list(passes.capture_sizes)
        else:
            arguments["max_cudagraph_capture_size"] = passes.max_capture_size
    return CompilationConfig(**arguments)


def speculation(draft_tokens: int) -> dict[str, object] | None:
    """Return the configuration that verifies so many tokens of a given draft; None for 0."""
    if not draft_tokens:
        return None
    return {
        "method": "custom_class",
        "model": "auricle.pd_worker.vllm.scheduler.NoProposer",
        "num_speculative_tokens": draft_tokens,
    }
