"""Which PD worker holds KV of a prompt's beginning, through Dynamo's KV router.

vLLM tells of every block that it stores or drops on a local socket; Dynamo relays that on its
event plane, and its KV router keeps the index. Blocks hash by their tokens and the tenant.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from auricle.tasks import within

log = logging.getLogger(__name__)
# The index is in this process: an answer takes half a millisecond.
_ANSWER_SECONDS = 0.2


async def publish(endpoint: Any, source: str, block_size: int, model: str) -> Any:
    """Relay what vLLM tells at the ZeroMQ address `source`; `shutdown()` what is returned."""
    from dynamo.llm import (
        KvEventPublisher,
        ModelInput,
        ModelRuntimeConfig,
        ModelType,
        WorkerType,
        register_model,
    )

    # The router knows a worker by its model card. Without a surface of its own
    # (`ModelType.Empty`) no frontend of Dynamo's serves it.
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
        # Processors that come later ask it for what they have missed.
        enable_local_indexer=True,
        zmq_endpoint=source,
    )


class KvIndex:
    """What all instances of one endpoint hold."""

    def __init__(self, endpoint: Any, block_size: int) -> None:
        """`block_size` is that of the workers; with another one nothing is ever found."""
        from dynamo.llm import KvRouter, KvRouterConfig

        # Placing is ours: the router's own accounts of load are not wanted.
        config = KvRouterConfig(router_track_active_blocks=False)
        self._block_size = block_size
        self._router = KvRouter(endpoint, block_size, config)

    async def held(self, tokens: Sequence[int], tenant: str) -> Mapping[int, int]:
        """How many of the first `tokens` each instance holds, whole blocks only.

        A hint: where the router does not answer, nobody is said to hold any.
        """
        if len(tokens) < self._block_size:
            return {}
        try:
            scores = await within(
                _ANSWER_SECONDS,
                self._router.get_overlap_scores(list(tokens), cache_namespace=tenant),
                "the KV router",
            )
        except Exception as error:  # too late, or Dynamo's, which has no error types of its own
            log.warning("placed by load alone, without the KV router: %s", error)
            return {}
        return {
            worker["worker_id"]: worker["device_blocks"] * self._block_size
            for worker in scores["workers"]
            if worker["device_blocks"]
        }
