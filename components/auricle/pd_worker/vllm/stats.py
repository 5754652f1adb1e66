"""Keeps the latest of the statistics that vLLM reports after every step."""

from __future__ import annotations

from typing import Any

from vllm.v1.metrics.loggers import PrometheusStatLogger

from auricle.load.reporter import EngineState


def logger_into(state: EngineState) -> Any:
    """Return a stat logger class for `AsyncLLM` that keeps `state` up to date."""

    class Logger(PrometheusStatLogger):
        """In the place of vLLM's Prometheus logger, which would be there, too.

        That one counts dozens of things after every step and request, for a registry that
        nobody reads: the worker has metrics of its own.
        """

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

        def log_engine_initialized(self) -> None: ...

    return Logger
