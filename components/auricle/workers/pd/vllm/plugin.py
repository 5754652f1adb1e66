"""The entry point `vllm.general_plugins`, which vLLM calls in each of its processes."""

from __future__ import annotations

from auricle.checkpoints.architectures.base import DecoderKind
from auricle.process.engine_process import end_with_parent
from auricle.process.resources import collect_as_usual, trim_heap
from auricle.workers.pd.vllm.process import capture_failures, show_own_log

# The registered name of our class for each text decoder.
DECODERS: dict[DecoderKind, str] = {
    "Qwen3ForCausalLM": "AuricleQwen3Decoder",
    "Qwen3MoeForCausalLM": "AuricleQwen3MoeDecoder",
    "Qwen2ForCausalLM": "AuricleQwen2Decoder",
    "Gemma4ForCausalLM": "AuricleGemma4Decoder",
    "WhisperForConditionalGeneration": "AuricleWhisperDecoder",
}
_MODELS = "auricle.workers.pd.vllm.model"
_HOMES: dict[DecoderKind, str] = {
    "Gemma4ForCausalLM": "auricle.workers.pd.vllm.gemma_model",
    "WhisperForConditionalGeneration": "auricle.workers.pd.vllm.whisper_model",
}


def register() -> None:
    """Register our decoder classes with vLLM, which imports one when a model is loaded."""
    from vllm import ModelRegistry

    if end_with_parent():
        capture_failures()
        show_own_log()
        trim_heap()
        collect_as_usual()  # vLLM's imports are complete
    known = ModelRegistry.get_supported_archs()
    for decoder, name in DECODERS.items():
        if name not in known:
            ModelRegistry.register_model(name, f"{_HOMES.get(decoder, _MODELS)}:{name}")
