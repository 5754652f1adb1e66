"""vLLM's AsyncLLM behind the few calls the PD worker needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from auricle.embeddings.memory import HostSlab
from auricle.errors import AuricleError, DeadlineExceeded, WindowsMissing
from auricle.tasks import within

_ABORT_SECONDS = 5.0
# As Dynamo marks salts: its KV router knows them by that, and takes the rest for a namespace.
_TENANT_SALT = "dynamo-cache-salt:"
# The model runs in the engine's own process. vLLM's default on a CPU is one more process
# and a queue between them, on which both spin for a second after every step.
_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


@dataclass(frozen=True)
class EngineOptions:
    """What of vLLM's configuration auricle's settings reach.

    `kv_cache_gib` sizes the KV cache on a CPU, `gpu_memory_share` on a GPU; `kv_blocks`
    overrides both. `draft_tokens` is how many are verified in one pass, 0 for none.
    With `limit_reuse` only KV up to the last finished window can be found again. At
    `kv_events`, a ZeroMQ address, vLLM tells of every KV block it stores or drops.
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


@dataclass(frozen=True)
class PlacedWindow:
    """A prompt item: where its embeddings lie in the landing slab."""

    key: str
    slot: int
    generation: int
    length: int


@dataclass(frozen=True)
class Timings:
    """When a request reached vLLM's scheduler, was scheduled, and gave tokens (monotonic)."""

    queued: float
    scheduled: float
    first_token: float
    last_token: float


@dataclass(frozen=True)
class Decoded:
    """Greedy output; `finish` is `stop` or `length`.

    `steps` counts the forward passes that gave output, one after the other;
    `accepted_tokens` of the `draft_tokens` verified on the way were right.
    """

    tokens: tuple[int, ...]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    steps: int
    draft_tokens: int
    accepted_tokens: int
    timings: Timings


class Engine:
    """One vLLM engine reading audio from `slab`."""

    def __init__(self, options: EngineOptions, slab: HostSlab, audio_token: int) -> None:
        _set_environment(options)
        from vllm.config import ECTransferConfig
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        from auricle.pd_worker.vllm.plugin import ARCHITECTURE
        from auricle.pd_worker.vllm.stats import EngineState, logger_into

        layout = slab.layout
        transfer = ECTransferConfig(
            ec_connector="LandingSlabConnector",
            ec_connector_module_path="auricle.pd_worker.vllm.connector",
            ec_role="ec_consumer",
            ec_connector_extra_config={
                "slab": slab.name,
                "slots": slab.count,
                "width": layout.width,
                "item_bytes": layout.item_bytes,
                "max_length": layout.max_length,
            },
        )
        arguments = AsyncEngineArgs(
            model=options.model,
            hf_overrides={"architectures": [ARCHITECTURE]},
            skip_tokenizer_init=True,
            dtype=options.dtype,
            max_model_len=options.max_model_len,
            max_num_seqs=options.max_num_seqs,
            block_size=options.block_size,
            gpu_memory_utilization=options.gpu_memory_share,
            enforce_eager=options.enforce_eager,
            enable_prefix_caching=options.enable_prefix_caching,
            enable_mm_embeds=True,
            mm_processor_cache_gb=0,
            skip_mm_profiling=True,
            use_tqdm_on_load=False,
            limit_mm_per_prompt={"audio": options.max_model_len},
            ec_transfer_config=transfer,
            # Those of `stats`; what vLLM would print is not wanted.
            disable_log_stats=True,
            distributed_executor_backend=_EXECUTOR,
            scheduling_policy="priority",
            scheduler_cls="auricle.pd_worker.vllm.scheduler.SessionScheduler",
            speculative_config=_speculation(options),
            per_request_spec_decode_metrics="summary" if options.draft_tokens else "none",
            num_gpu_blocks_override=options.kv_blocks,
            kv_events_config=_events(options),
        )
        self._limit_reuse = options.limit_reuse
        self._audio_token = audio_token
        self.state = EngineState()
        self._llm = AsyncLLM.from_engine_args(arguments, stat_loggers=[logger_into(self.state)])

    async def generate(
        self,
        request_id: str,
        head: Sequence[int],
        windows: Sequence[PlacedWindow],
        tail: Sequence[int],
        stop_tokens: Sequence[int],
        max_tokens: int,
        *,
        priority: int,
        tenant: str,
        draft: Sequence[int] = (),
        reusable_windows: int = 0,
    ) -> Decoded:
        """Greedy decoding of head · windows · tail; cancelling aborts the request in vLLM.

        vLLM runs the lowest `priority` first. `draft` is what the output may begin with:
        verified, never trusted. KV up to the first `reusable_windows` windows may be found
        by later requests.

        Raises WindowsMissing if the connector's guard refused a window, and
        AuricleError if vLLM failed the request.
        """
        import torch
        from vllm import SamplingParams

        from auricle.pd_worker.vllm.scheduler import DRAFT, REUSABLE_TOKENS

        prompt = {
            "prompt_token_ids": [*head, *[self._audio_token] * len(windows), *tail],
            "multi_modal_data": {
                "audio": {"audio_num_tokens": torch.tensor([w.length for w in windows])}
            },
            "multi_modal_uuids": {"audio": [w.key for w in windows]},
            "cache_salt": _TENANT_SALT + tenant,
        }
        rows = [[w.key, w.slot, w.generation, w.length] for w in windows]
        sampling = SamplingParams(
            temperature=0.0,
            max_tokens=max_tokens,
            stop_token_ids=list(stop_tokens),
            detokenize=False,
            extra_args={
                "ec_transfer_params": {"windows": rows},
                DRAFT: list(draft),
                REUSABLE_TOKENS: (
                    len(head) + sum(w.length for w in windows[:reusable_windows])
                    if self._limit_reuse
                    else None
                ),
            },
        )
        last = None
        try:
            async for output in self._llm.generate(prompt, sampling, request_id, priority=priority):
                last = output
        except asyncio.CancelledError:
            await self._abort_processed()
            raise
        return _decoded(last, windows)

    async def _abort_processed(self) -> None:
        """vLLM has sent the abort; wait until its engine has taken it.

        Until then a step may still copy from the request's slots, so they must
        stay pinned. The engine takes messages in order: an answer to this
        harmless question comes after the abort.
        """
        with contextlib.suppress(DeadlineExceeded):
            await within(_ABORT_SECONDS, self._llm.is_sleeping(), "vLLM's abort")

    async def check_health(self) -> None:
        """Raise if vLLM's processes died."""
        await self._llm.check_health()

    async def close(self) -> None:
        """Stop vLLM's processes."""
        if self._llm.output_handler is not None:
            # Otherwise it reports the end of the engine as a failure.
            self._llm.output_handler.cancel()
        await asyncio.to_thread(self._llm.shutdown)


def _decoded(output: object, windows: Sequence[PlacedWindow]) -> Decoded:
    outputs = getattr(output, "outputs", None)
    if not outputs:
        raise AuricleError("vLLM ended the request without output")
    completion = outputs[0]
    if completion.finish_reason == "error":
        raise WindowsMissing(tuple(w.key for w in windows), "refused at admission")
    if completion.finish_reason not in ("stop", "length"):
        raise AuricleError(f"vLLM ended the request with {completion.finish_reason!r}")
    drafts = completion.spec_decode_metrics
    accepted = sum(n * steps for n, steps in enumerate(drafts.histogram)) if drafts else 0
    return Decoded(
        tokens=tuple(completion.token_ids),
        finish=completion.finish_reason,
        prompt_tokens=len(output.prompt_token_ids),  # type: ignore[attr-defined]
        cached_tokens=output.num_cached_tokens or 0,  # type: ignore[attr-defined]
        # Every pass gives one token, and one more for each drafted token that was right.
        steps=len(completion.token_ids) - accepted,
        draft_tokens=drafts.num_draft_tokens if drafts else 0,
        accepted_tokens=accepted,
        timings=_timings(output.metrics),  # type: ignore[attr-defined]
    )


def _timings(noted: Any) -> Timings:
    return Timings(noted.queued_ts, noted.scheduled_ts, noted.first_token_ts, noted.last_token_ts)


def _events(options: EngineOptions) -> Any:
    from vllm.config import KVEventsConfig

    return KVEventsConfig(
        enable_kv_cache_events=bool(options.kv_events),
        publisher="zmq" if options.kv_events else "null",
        endpoint=options.kv_events,
    )


def _speculation(options: EngineOptions) -> dict[str, object] | None:
    if not options.draft_tokens:
        return None
    return {
        "method": "custom_class",
        "model": "auricle.pd_worker.vllm.scheduler.NoProposer",
        "num_speculative_tokens": options.draft_tokens,
    }


def _set_environment(options: EngineOptions) -> None:
    """vLLM reads these when it is imported and in the processes it starts."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_PLUGINS", "auricle")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(options.kv_cache_gib))
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
