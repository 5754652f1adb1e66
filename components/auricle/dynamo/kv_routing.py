"""Finds the PD workers whose prefix cache holds a prompt's head, with Dynamo's KV router.

vLLM publishes on a local socket which blocks it stores and evicts, Dynamo relays that on its
event plane, and its KV router keeps an index of block hashes (of tokens and tenant).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from auricle.core.aio import with_timeout

log = logging.getLogger(__name__)
# The index is in this process, so an answer takes half a millisecond.
_ANSWER_SECONDS = 0.2


async def publish_kv_events(endpoint: Any, source: str, block_size: int, model: str) -> Any:
    """Relay the KV events that vLLM publishes at the ZeroMQ address `source`.

    `block_size` is in tokens. The caller must call `shutdown()` on the returned publisher.
    """
    from dynamo.llm import (
        KvEventPublisher,
        ModelInput,
        ModelRuntimeConfig,
        ModelType,
        WorkerType,
        register_model,
    )

    # The router identifies a worker by its model card. The type `Empty` keeps Dynamo's own
    # frontends from serving that model.
    await register_model(
        ModelInput.Tokens,
        ModelType.Empty,
        endpoint,
        model,
        f"{model}-pd",
        worker_type=WorkerType.Aggregated,
        needs=[],
        kv_cache_block_size=block_size,
        runtime_config=ModelRuntimeConfig(),
        skip_model_assets=True,
    )
    return KvEventPublisher(
        endpoint,
        kv_block_size=block_size,
        # Processors that start later query it for the events they have missed.
        enable_local_indexer=True,
        zmq_endpoint=source,
    )


class KvIndex:
    """An index of the prefix caches of all instances of one endpoint."""

    def __init__(self, endpoint: Any, block_size: int) -> None:
        """`block_size` (tokens) must equal the workers' setting; otherwise lookups find nothing."""
        from dynamo.llm import KvRouter, KvRouterConfig

        # auricle places segments itself, so the router need not track load.
        config = KvRouterConfig(router_track_active_blocks=False)
        self._block_size = block_size
        self._router = KvRouter(endpoint, block_size, config)

    async def held(self, tokens: Sequence[int], tenant: str) -> Mapping[int, int]:
        """Return how many of the first `tokens` each instance holds, in whole blocks.

        The answer is a hint: it is empty, and a warning is logged, if the router fails or does
        not answer within 0.2 s.
        """
        if len(tokens) < self._block_size:
            return {}
        try:
            scores = await with_timeout(
                _ANSWER_SECONDS,
                self._router.get_overlap_scores(list(tokens), cache_namespace=tenant),
                "the KV router",
            )
        except Exception as error:  # a time-out, or Dynamo's error, which has no type of its own
            log.warning("placed by load alone, without the KV router: %s", error)
            return {}
        return {
            worker["worker_id"]: worker["device_blocks"] * self._block_size
            for worker in scores["workers"]
            if worker["device_blocks"]
        }
