"""The names of vLLM's that we use and that its documentation does not promise.

They were read in `READ_IN`, the pinned versions, and may move in any release. A test names
those that have, as `python -m auricle.workers.pd.vllm.internals` does; an engine of another version
does so when it starts. vLLM is not imported here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from auricle.core.errors import ProcessFailed

# By the lock file of requirements/.
READ_IN = {"cpu": "0.32.0", "gpu": "0.33.0"}

# By module, or module:class. An attribute may be a class's own, a field, or set in its methods.
INTERNALS: Mapping[str, tuple[str, ...]] = {
    # The engine, as its client.
    "vllm.v1.engine.async_llm:AsyncLLM": (
        *("from_engine_args", "generate", "is_sleeping", "check_health", "errored", "shutdown"),
        *("output_handler", "engine_core", "input_processor", "renderer", "model_config"),
        "vllm_config",
    ),
    "vllm.v1.engine.core_client:BackgroundResources": ("engine_manager",),
    "vllm.v1.engine.utils": ("get_mp_context",),
    "vllm.v1.engine.utils:CoreEngineProcManager": ("processes",),
    "vllm.v1.engine.input_processor:InputProcessor": ("generation_config_fields",),
    "vllm.renderers.base:BaseRenderer": ("get_eos_token_id",),
    "vllm.v1.engine.exceptions": ("EngineDeadError",),
    "vllm.v1.engine:EngineCoreRequest": (
        *("request_id", "prompt_token_ids", "mm_features", "sampling_params", "pooling_params"),
        *("arrival_time", "lora_request", "cache_salt", "data_parallel_rank", "priority"),
    ),
    "vllm.sampling_params:SamplingParams": (
        *("update_from_generation_config", "extra_args", "allowed_token_ids", "output_kind"),
    ),
    "vllm.outputs:CompletionOutput": ("finish_reason", "logprobs", "spec_decode_metrics"),
    "vllm.outputs:RequestOutput": ("metrics", "num_cached_tokens", "prompt_token_ids"),
    "vllm.v1.executor.uniproc_executor": ("UniProcExecutor",),
    "vllm.v1.metrics.loggers:PrometheusStatLogger": (
        *("record", "record_sleep_state", "log_engine_initialized"),
    ),
    "vllm.v1.metrics.stats:SchedulerStats": ("kv_cache_usage",),
    "vllm.v1.metrics.stats:IterationStats": ("inter_token_latencies_iter",),
    # The scheduler.
    "vllm.v1.core.sched.scheduler:Scheduler": (
        *("_update_after_schedule", "update_draft_token_ids", "kv_cache_manager", "requests"),
        *("num_spec_tokens", "num_lookahead_tokens", "use_v2_model_runner", "scheduler_config"),
        "vllm_config",
    ),
    "vllm.v1.core.sched.async_scheduler": ("AsyncScheduler",),
    "vllm.v1.core.kv_cache_manager:KVCacheManager": ("coordinator",),
    "vllm.v1.core.kv_cache_coordinator:KVCacheCoordinator": ("cache_blocks",),
    "vllm.v1.core.sched.output:SchedulerOutput": (
        *("scheduled_new_reqs", "num_scheduled_tokens", "total_num_scheduled_tokens"),
        "scheduled_spec_decode_tokens",
    ),
    "vllm.v1.request:Request": (
        *("num_computed_tokens", "num_tokens", "num_output_tokens", "output_token_ids"),
        *("is_prefill_chunk", "is_finished", "spec_token_ids", "max_tokens", "mm_features"),
        *("ec_transfer_params", "sampling_params"),
    ),
    "vllm.v1.outputs:DraftTokenIds": ("req_ids",),
    "vllm.distributed.ec_transfer.ec_connector.base": ("ECConnectorMetadata", "ECConnectorRole"),
    "vllm.distributed.ec_transfer.ec_connector.base:ECConnectorBase": (
        *("ensure_cache_available", "take_unavailable_requests", "has_cache_item"),
        *("update_state_after_alloc", "build_connector_meta", "request_finished"),
        *("start_worker_services", "start_load_caches", "_get_connector_metadata"),
    ),
    # The worker, and the verification of drafts.
    "vllm.v1.worker.worker_base:WorkerBase": ("load_model", "compile_or_warm_up_model"),
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner": (
        *("rejection_sampler", "input_batch", "attn_groups"),
    ),
    "vllm.v1.worker.gpu_input_batch:InputBatch": ("logitsprocs",),
    "vllm.v1.worker.utils:AttentionGroup": ("backend",),
    "vllm.v1.attention.backend:AttentionBackend": ("get_name",),
    "vllm.v1.sample.sampler": ("batched_count_greater_than",),
    "vllm.v1.sample.rejection_sampler": ("PLACEHOLDER_TOKEN_ID",),
    "vllm.v1.sample.rejection_sampler:RejectionSampler": ("apply_logits_processors",),
    "vllm.v1.sample.logits_processor:LogitBiasLogitsProcessor": ("biases",),
    "vllm.v1.sample.logits_processor:MinTokensLogitsProcessor": ("min_toks",),
    "vllm.v1.sample.logits_processor.state:LogitsProcessors": ("non_argmax_invariant",),
    "vllm.v1.sample.metadata:SamplingMetadata": (
        *("all_greedy", "no_penalties", "max_num_logprobs", "logprob_token_ids"),
        *("allowed_token_ids_mask", "bad_words_token_ids", "spec_token_ids", "logitsprocs"),
        "thinking_budget_state_holder",
    ),
    "vllm.v1.spec_decode.metadata:SpecDecodeMetadata": (
        *("draft_token_ids", "max_spec_len", "num_draft_tokens"),
    ),
    "vllm.v1.outputs": ("LogprobsTensors", "SamplerOutput"),
    "vllm.utils.torch_utils": ("PIN_MEMORY",),
    "vllm.platforms": ("current_platform",),
    # Models and their inputs.
    "vllm.model_executor.models.utils": ("AutoWeightsLoader", "WeightsMapper", "maybe_prefix"),
    "vllm.model_executor.models.interfaces": ("MultiModalEmbeddings", "SupportsMultiModal"),
    "vllm.model_executor.models.qwen2": ("Qwen2ForCausalLM",),
    "vllm.model_executor.models.qwen3": ("Qwen3ForCausalLM",),
    "vllm.model_executor.models.qwen3_moe": ("Qwen3MoeForCausalLM",),
    "vllm.model_executor.models.gemma4": ("Gemma4ForCausalLM",),
    "vllm.model_executor.models.whisper": ("WhisperForConditionalGeneration",),
    "vllm.multimodal": ("MULTIMODAL_REGISTRY",),
    "vllm.multimodal.inputs": (
        *("MultiModalBatchedField", "MultiModalFeatureSpec", "MultiModalFieldConfig"),
        *("MultiModalFieldElem", "MultiModalKwargsItem", "MultiModalKwargsItems"),
        "PlaceholderRange",
    ),
    "vllm.multimodal.parse": ("MultiModalDataItems", "MultiModalDataParser"),
    "vllm.multimodal.processing": (
        *("BaseDummyInputsBuilder", "BaseMultiModalProcessor", "BaseProcessingInfo"),
        *("EncDecMultiModalProcessor", "PromptReplacement", "PromptUpdate"),
    ),
}


def check_version(installed: str) -> None:
    """Raise ProcessFailed if vLLM of a version that was not read has moved names that we use."""
    if installed.partition("+")[0] in READ_IN.values() or not (missing := moved()):
        return
    known = " or ".join(sorted(set(READ_IN.values())))
    raise ProcessFailed(
        f"vLLM {installed} has no {', '.join(missing)}: install {known}, as requirements/ pins"
    )


def moved() -> list[str]:
    """Return the names that the installed vLLM lacks. Imports its modules, which takes seconds."""
    return [missing for place, names in INTERNALS.items() for missing in _missing(place, names)]


def _missing(place: str, names: tuple[str, ...]) -> Iterator[str]:
    module, _, kind = place.partition(":")
    try:
        owner: Any = import_module(module)
        owner = getattr(owner, kind) if kind else owner
    except (ImportError, AttributeError):
        yield place
        return
    for name in names:
        if not hasattr(owner, name) and not (kind and _is_set(owner, name)):
            yield f"{place}.{name}"


def _is_set(owner: type, name: str) -> bool:
    """Whether a class or a base of it annotates the attribute, or sets it in a method."""
    own = [one for one in owner.__mro__ if one.__module__.startswith("vllm")]
    if any(name in getattr(one, "__annotations__", {}) for one in own):
        return True
    sources = [inspect.getsource(one) for one in own]
    return any(f"self.{name} =" in text or f"self.{name}:" in text for text in sources)


if __name__ == "__main__":
    raise SystemExit(", ".join(moved()) or None)
