"""Entry point `vllm.general_plugins`: runs in every vLLM process before models load."""

from __future__ import annotations

ARCHITECTURE = "AuricleQwen3ASRDecoder"
_MODEL = "auricle.pd_worker.vllm.model:AuricleQwen3ASRDecoder"


def register() -> None:
    """Make our decoder class known to vLLM (imported lazily, when it is loaded)."""
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, _MODEL)
