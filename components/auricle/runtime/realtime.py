"""Behind Dynamo's own frontend: a model it serves at `/v1/realtime`.

Its hop to us is the one bidirectional stream of the system. Python clients cannot call
such an endpoint (they hang), so nothing of ours does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.runtime.cancellation import stream_until_stopped

ENDPOINT = "generate"
Sessions = Callable[[AsyncIterator[dict[str, Any]]], AsyncGenerator[dict[str, Any], None]]


@dataclass(frozen=True)
class RealtimeModel:
    """`sessions` serves one session: client events in, server events out, until it ends."""

    path: Path
    name: str
    sessions: Sessions


async def register(endpoint: Any, model: RealtimeModel) -> None:
    """Announce the model; Dynamo's frontend then lists it and routes sessions to us."""
    from dynamo.llm import ModelInput, ModelType, WorkerType, register_model

    await register_model(
        ModelInput.Text,
        ModelType.Realtime,
        endpoint,
        str(model.path),
        model.name,
        worker_type=WorkerType.Aggregated,
        needs=[],
        # It needs a name and an address; weights and tokenizer stay with our workers.
        skip_model_assets=True,
    )


async def serve(endpoint: Any, model: RealtimeModel) -> None:
    """Until the process stops."""

    async def handle(incoming: Any, context: Any) -> AsyncGenerator[dict[str, Any], None]:
        async with aclosing(stream_until_stopped(model.sessions(incoming), context)) as outgoing:
            async for event in outgoing:
                yield event

    await endpoint.serve_bidirectional_endpoint(handle, graceful_shutdown=True)
