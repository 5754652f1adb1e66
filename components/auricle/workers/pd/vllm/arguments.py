"""Parts of vLLM's configuration that are structures of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.config import CompilationConfig, ECTransferConfig, KernelConfig, KVEventsConfig
from vllm.config.compilation import CompilationMode, CUDAGraphMode

from auricle.checkpoints.architectures.base import Audio
from auricle.checkpoints.text_model import MROPE_KEYS, ROPE_CONFIGS
from auricle.embeddings.slab import Slab
from auricle.embeddings.slabs import export
from auricle.workers.pd.vllm.options import EngineOptions, PassOptions
from auricle.workers.pd.vllm.plugin import DECODERS


@dataclass(frozen=True)
class AsDecoder:
    """vLLM's `hf_overrides`: selects our decoder class `name`, without M-RoPE.

    With M-RoPE vLLM would require positions in several dimensions; see `plain_rope_config`. A
    class, because vLLM pickles it for its engine's process.
    """

    name: str

    def __call__(self, config: Any) -> Any:
        config.architectures = [self.name]
        thinker = getattr(config, "thinker_config", config)
        # vLLM first calls this with an empty config.
        text = getattr(thinker, "text_config", None)
        for key in ROPE_CONFIGS:
            values = getattr(text, key, None)
            if isinstance(values, dict):
                for mrope_key in MROPE_KEYS:
                    values.pop(mrope_key, None)
        return config


_SCHEDULERS = "auricle.workers.pd.vllm.scheduler"
_CONNECTORS: dict[Audio, str] = {
    "prompt": "LandingSlabConnector",
    "cross_attention": "CrossAttentionConnector",
}
# Requests of a decoder with cross-attention whose embeddings a pass can take.
_CHUNKS_PER_PASS = 4
WORKER = "auricle.workers.pd.vllm.device_worker.DeviceWorker"


def kv_events(address: str) -> KVEventsConfig:
    """Return the configuration that publishes KV events at `address`, unless it is empty."""
    return KVEventsConfig(
        enable_kv_cache_events=bool(address),
        publisher="zmq" if address else "null",
        endpoint=address,
    )


def of_audio(options: EngineOptions, slab: Slab | None) -> dict[str, Any]:
    """Return the arguments of a decoder with audio from `slab`; empty for a text model."""
    if slab is None:
        return {}
    attends = options.audio == "cross_attention"
    transfer = ECTransferConfig(
        ec_connector=_CONNECTORS[options.audio],
        ec_connector_module_path="auricle.workers.pd.vllm.connector",
        ec_role="ec_consumer",
        ec_connector_extra_config=export(slab),
    )
    return {
        "hf_overrides": AsDecoder(DECODERS[options.decoder]),
        "enable_mm_embeds": True,
        "mm_processor_cache_gb": 0,
        "skip_mm_profiling": True,
        "limit_mm_per_prompt": {"audio": 1 if attends else options.max_model_len},
        "ec_transfer_config": transfer,
    }


def scheduler_class(passes: PassOptions) -> str:
    kind = "AsyncSessionScheduler" if passes.async_scheduling else "SessionScheduler"
    return f"{_SCHEDULERS}.{kind}"


def of_passes(options: EngineOptions) -> dict[str, Any]:
    passes = options.passes
    most = passes.max_batched_tokens
    if options.chunk_positions:  # vLLM counts them as tokens of the pass that takes them
        most = max(most or 0, _CHUNKS_PER_PASS * options.chunk_positions)
    arguments: dict[str, Any] = {
        "enforce_eager": options.enforce_eager,
        "max_num_batched_tokens": most,
        # Explicit, as vLLM's default is not valid for all our schedulers.
        "async_scheduling": passes.async_scheduling,
        "scheduler_cls": scheduler_class(passes),
        # On a GPU vLLM would compile all sampling kernels at start, for half a minute and more with
        # an empty Triton cache. Greedy requests need none of them.
        "kernel_config": KernelConfig(enable_jit_warmup=False),
    }
    if passes.attention_backend is not None:
        arguments["attention_backend"] = passes.attention_backend
    if not options.enforce_eager:
        arguments["compilation_config"] = compilation(passes)
    return arguments


def compilation(passes: PassOptions) -> CompilationConfig:
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
    """Return the configuration that verifies given drafts of that many tokens; None for 0."""
    if not draft_tokens:
        return None
    return {
        "method": "custom_class",
        "model": "auricle.workers.pd.vllm.scheduler.NoProposer",
        "num_speculative_tokens": draft_tokens,
    }
