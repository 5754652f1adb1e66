"""Wraps vLLM's AsyncLLM as an `Engine`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from vllm.v1.metrics.loggers import PrometheusStatLogger

from auricle.core.aio import with_timeout
from auricle.core.errors import (
    AuricleError,
    DeadlineExceeded,
    ProcessFailed,
    WindowsMissing,
    WorkerUnavailable,
)
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.load.reporter import EngineState
from auricle.process.device_faults import first_sentence
from auricle.workers.pd.engine import Decoded, EngineCapabilities, GenerateRequest, Timings
from auricle.workers.pd.vllm import engine_server
from auricle.workers.pd.vllm.internals import check_version
from auricle.workers.pd.vllm.options import EngineOptions
from auricle.workers.pd.vllm.process import (
    failure_file,
    pass_on_log_level,
    read_failure,
    set_defaults,
)

_ABORT_SECONDS = 5.0
# Runs the model in the engine's process. vLLM's default on a CPU is another process, with a queue
# on which both busy-wait for a second after every step.
_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


def capabilities(draft_tokens: int, limit_reuse: bool) -> EngineCapabilities:
    """Return vLLM's capabilities with our scheduler."""
    return EngineCapabilities(
        drafts=draft_tokens > 0, limited_reuse=limit_reuse, logprobs=True, kv_events=True
    )


class VllmEngine:
    """A vLLM engine with audio from `slab`, or with a text model.

    The constructor blocks until the model is loaded: call it in a worker thread. It raises
    ProcessFailed if vLLM cannot start. All other methods must be called on one event loop.
    """

    def __init__(
        self,
        options: EngineOptions,
        slab: Slab | None = None,
        audio_token: int | None = None,
        *,
        forks: bool = False,
    ) -> None:
        """With `forks`, vLLM's processes are forked by `engine_server`, which must be started."""
        _set_environment(options)
        from vllm import __version__

        check_version(__version__)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        from auricle.workers.pd.vllm.arguments import (
            WORKER,
            kv_events,
            of_audio,
            of_passes,
            speculation,
        )
        from auricle.workers.pd.vllm.requests import RequestBuilder

        arguments = AsyncEngineArgs(
            model=options.model,
            skip_tokenizer_init=True,
            dtype=options.dtype,
            max_model_len=options.max_model_len,
            max_num_seqs=options.max_num_seqs,
            block_size=options.block_size,
            gpu_memory_utilization=options.gpu_memory_share,
            enable_prefix_caching=options.enable_prefix_caching and not options.chunk_positions,
            use_tqdm_on_load=False,
            # Among the allowed tokens of a request.
            logprobs_mode="processed_logprobs",
            # Turns off printed statistics; `stat_loggers` stay on.
            disable_log_stats=True,
            distributed_executor_backend=_EXECUTOR,
            worker_cls=WORKER,
            scheduling_policy="priority",
            speculative_config=speculation(options.draft_tokens),
            per_request_spec_decode_metrics="summary" if options.draft_tokens else "none",
            num_gpu_blocks_override=options.kv_blocks,
            kv_events_config=kv_events(options.kv_events),
            **of_audio(options, slab),
            **of_passes(options),
        )
        limited = options.limit_reuse and not options.chunk_positions
        self.capabilities = capabilities(options.draft_tokens, limited)
        self.state = EngineState()
        self.dead = asyncio.Event()
        with _start_failures(), engine_server.forked(started=forks):
            loggers = [logger_into(self.state)]
            self._llm = AsyncLLM.from_engine_args(arguments, stat_loggers=loggers)
        self._requests = RequestBuilder(self._llm, options.audio, audio_token)
        cache = self._llm.vllm_config.cache_config
        self.kv_tokens = int((cache.num_gpu_blocks or 0) * cache.block_size)
        self.attended = options.chunk_positions

    async def generate(self, request: GenerateRequest) -> Decoded:
        """See `Engine.generate`; cancelling aborts the request in vLLM.

        WindowsMissing names all windows of the request, as the connector does not report which.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        reusable = None
        if request.reusable_windows is not None and self.capabilities.limited_reuse:
            kept = request.windows[: request.reusable_windows]
            reusable = len(request.head) + sum(window.length for window in kept)
        sampling = self._requests.sampling(request, reusable)
        built = self._requests.build(request, sampling)
        last = None
        try:
            async for output in self._llm.generate(built, sampling, request.request_id):
                last = output
        except asyncio.CancelledError:
            await self._abort_processed()
            raise
        except EngineDeadError as error:
            self.dead.set()
            raise WorkerUnavailable("vLLM's engine on this PD worker has ended") from error
        return _decoded(last, request.windows)

    async def _abort_processed(self) -> None:
        """Wait until vLLM's engine has processed an abort.

        Until then a step may copy from the request's slots, so they must stay pinned. The engine
        processes messages in order, so the reply to this query follows the abort.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        with contextlib.suppress(DeadlineExceeded, EngineDeadError):
            await with_timeout(_ABORT_SECONDS, self._llm.is_sleeping(), "vLLM's abort")

    async def answers(self) -> None:
        """Return once the engine has answered, between two steps.

        Raises ProcessFailed if it has ended.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            await self._llm.is_sleeping()
        except EngineDeadError:
            self.dead.set()
            raise ProcessFailed("vLLM's engine has ended") from None

    async def check_health(self) -> None:
        await self._llm.check_health()

    async def close(self) -> None:
        """Stop vLLM's processes."""
        failed = self.dead.is_set() or self._llm.errored
        if self._llm.output_handler is not None:
            # It would report the end of the engine as a failure.
            self._llm.output_handler.cancel()
        if failed:
            self._kill()
        await asyncio.to_thread(self._llm.shutdown)

    def _kill(self) -> None:
        """Kill a failed engine, which may wait for its device forever."""
        resources: Any = self._llm.engine_core.resources
        for process in getattr(resources.engine_manager, "processes", ()):
            process.kill()


@contextlib.contextmanager
def _start_failures() -> Iterator[None]:
    """Raise ProcessFailed with vLLM's reason if its engine cannot be started in this block."""
    with failure_file() as file:
        try:
            yield
        except (RuntimeError, ValueError, AssertionError) as error:
            raise ProcessFailed(
                f"vLLM cannot start: {read_failure(file) or _reason(error)}"
            ) from error


def _reason(error: Exception) -> str:
    problems = getattr(error, "errors", None)  # pydantic's; its message only counts them
    return str(problems()[0]["msg"]) if callable(problems) else first_sentence(error)


def _decoded(output: object, windows: Sequence[SlotRef]) -> Decoded:
    outputs = getattr(output, "outputs", None)
    if not outputs:
        raise AuricleError("vLLM ended the request without output")
    completion = outputs[0]
    if completion.finish_reason == "error":
        raise WindowsMissing(tuple(w.key for w in windows), "refused at admission")
    if completion.finish_reason not in ("stop", "length"):
        raise AuricleError(f"vLLM ended the request with {completion.finish_reason!r}")
    drafts, at = completion.spec_decode_metrics, output.metrics  # type: ignore[attr-defined]
    accepted = sum(n * steps for n, steps in enumerate(drafts.histogram)) if drafts else 0
    return Decoded(
        tokens=tuple(completion.token_ids),
        finish=completion.finish_reason,
        prompt_tokens=len(output.prompt_token_ids),  # type: ignore[attr-defined]
        cached_tokens=output.num_cached_tokens or 0,  # type: ignore[attr-defined]
        # Each step generates one token, and one more for each accepted draft token.
        steps=len(completion.token_ids) - accepted,
        draft_tokens=drafts.num_draft_tokens if drafts else 0,
        accepted_tokens=accepted,
        timings=Timings(at.queued_ts, at.scheduled_ts, at.first_token_ts, at.last_token_ts),
        logprobs=_logprobs(completion),
    )


def _logprobs(completion: Any) -> tuple[float, ...]:
    if completion.logprobs is None:
        return ()
    rows = zip(completion.token_ids, completion.logprobs, strict=True)
    return tuple(float(row[token].logprob) for token, row in rows)


def _set_environment(options: EngineOptions) -> None:
    set_defaults()
    pass_on_log_level()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(options.kv_cache_gib))
    os.environ["OMP_NUM_THREADS"] = str(options.threads)


def logger_into(state: EngineState) -> Any:
    """Return a stat logger class for `AsyncLLM` that updates `state` after every step."""

    class Logger(PrometheusStatLogger):
        """Replaces vLLM's Prometheus logger and its many counters: the worker has own metrics."""

        def __init__(self, vllm_config: Any, engine_indexes: list[int] | None = None) -> None:
            del vllm_config, engine_indexes

        def record(
            self,
            scheduler_stats: Any,
            iteration_stats: Any,
            mm_cache_stats: Any = None,
            engine_idx: int = 0,
        ) -> None:
            if scheduler_stats is not None:
                state.kv_usage = scheduler_stats.kv_cache_usage
            if iteration_stats is not None:
                for seconds in iteration_stats.inter_token_latencies_iter:
                    state.stepped(seconds)

        def record_sleep_state(self, sleep: int = 0, level: int = 0) -> None: ...

        def record_admission_rejection(self, reason: str) -> None: ...

        def log_engine_initialized(self) -> None: ...

    return Logger
