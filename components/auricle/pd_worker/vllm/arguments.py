"""Parts of vLLM's configuration that are structures of their own."""

from __future__ import annotations

from typing import Any

from vllm.config import CompilationConfig, ECTransferConfig, KVEventsConfig
from vllm.config.compilation import CompilationMode, CUDAGraphMode

from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import export
from auricle.pd_worker.vllm.hf_config import AsDecoder
from auricle.pd_worker.vllm.options import EngineOptions, Passes
from auricle.pd_worker.vllm.plugin import DECODERS

_SCHEDULERS = "auricle.pd_worker.vllm.scheduler"
WORKER = "auricle.pd_worker.vllm.device_worker.DeviceWorker"


def kv_events(address: str) -> KVEventsConfig:
    """Return the configuration that publishes KV events at `address`; empty for none."""
    return KVEventsConfig(
        enable_kv_cache_events=bool(address),
        publisher="zmq" if address else "null",
        endpoint=address,
    )


def of_audio(options: EngineOptions, slab: Slab | None) -> dict[str, Any]:
    """Return the arguments of a decoder that takes audio from `slab`; none for a text model."""
    if slab is None:
        return {}
    transfer = ECTransferConfig(
        ec_connector="LandingSlabConnector",
        ec_connector_module_path="auricle.pd_worker.vllm.connector",
        ec_role="ec_consumer",
        ec_connector_extra_config=export(slab),
    )
    return {
        "hf_overrides": AsDecoder(DECODERS[options.decoder]),
        "enable_mm_embeds": True,
        "mm_processor_cache_gb": 0,
        "skip_mm_profiling": True,
        "limit_mm_per_prompt": {"audio": options.max_model_len},
        "ec_transfer_config": transfer,
    }


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
