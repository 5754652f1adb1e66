"""vLLM's configuration by auricle's settings. vLLM is not imported here."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.checkpoints.architectures.base import Audio, DecoderKind
from auricle.config.devices import CompilationMode, CudaGraphMode


@dataclass(frozen=True)
class PassOptions:
    """Options of the model's passes without `enforce_eager`, by default for a CPU.

    `max_batched_tokens` limits a pass and its embeddings; None is vLLM's default. CUDA graphs have
    the sizes `capture_sizes`, by default vLLM's up to `max_capture_size`, in tokens.
    """

    max_batched_tokens: int | None = None
    compilation_mode: CompilationMode = "none"
    cudagraph_mode: CudaGraphMode = "none"
    max_capture_size: int = 1024
    capture_sizes: tuple[int, ...] = ()
    attention_backend: str | None = None
    async_scheduling: bool = False


@dataclass(frozen=True)
class EngineOptions:
    """The part of vLLM's configuration that auricle's settings control.

    `kv_cache_gib` sizes the KV cache on a CPU, `gpu_memory_share` on a GPU; `kv_blocks`
    overrides both. `draft_tokens` are verified in one forward pass; 0 turns drafts off.
    With `limit_reuse`, the prefix cache holds KV up to the last finished window only. vLLM
    publishes KV events (blocks stored and evicted) at the ZeroMQ address `kv_events`. `decoder` is
    ignored for text models. `audio` is how the decoder takes embeddings; with cross-attention, a
    chunk has `chunk_positions`.
    """

    model: str
    dtype: str
    max_model_len: int
    max_num_seqs: int
    block_size: int
    kv_cache_gib: int
    gpu_memory_share: float
    enforce_eager: bool
    threads: int
    draft_tokens: int = 0
    limit_reuse: bool = True
    kv_blocks: int | None = None
    enable_prefix_caching: bool = True
    kv_events: str = ""
    passes: PassOptions = PassOptions()
    decoder: DecoderKind = "Qwen3ForCausalLM"
    audio: Audio = "prompt"
    chunk_positions: int = 0
