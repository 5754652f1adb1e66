"""Environment variables that vLLM reads when it is imported, and in the processes it starts."""

from __future__ import annotations

import os

_DEFAULTS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "auricle",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # On a GPU vLLM would fork its engine off this process, whose threads (NIXL's) hold locks, and
    # would not call our plug-in there, which ends the engine with this process.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # FlashInfer's kernels for sampling want CUDA's compiler when vLLM starts. We only take the most
    # likely token.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}


def set_defaults() -> None:
    """Set what the user has not set."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
