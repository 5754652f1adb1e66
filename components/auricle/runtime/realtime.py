"""Registers a model that Dynamo's own frontend serves at `/v1/realtime`.

That frontend calls us with a bidirectional stream, the only one in the system: Python
clients of such an endpoint hang, so no component of ours calls one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.runtime.cancellation import stream_until_stopped

REALTIME_ENDPOINT = "generate"
Sessions = Callable[[AsyncIterator[dict[str, Any]]], AsyncGenerator[dict[str, Any], None]]


@dataclass(frozen=True)
class RealtimeModel:
    """A model; `sessions` takes one session's client events and yields its server events."""

    path: Path
    name: str
    sessions: Sessions


async def register_realtime(endpoint: Any, model: RealtimeModel) -> None:
    """Register the model, so that Dynamo's frontend lists it and routes sessions to us."""
    from dynamo.llm import ModelInput, ModelType, WorkerType, register_model

    await register_model(
        ModelInput.Text,
        ModelType.Realtime,
        endpoint,
        str(model.path),
        model.name,
        worker_type=WorkerType.Aggregated,
        needs=[],
        # The frontend needs a name and an address only; our workers have weights and tokenizer.
        skip_model_assets=True,
    )


async def serve_realtime(endpoint: Any, model: RealtimeModel) -> None:
    """Serve sessions until the process stops."""

    async def handle(incoming: Any, context: Any) -> AsyncGenerator[dict[str, Any], None]:
        async with aclosing(stream_until_stopped(model.sessions(incoming), context)) as outgoing:
            async for event in outgoing:
                yield event

    await endpoint.serve_bidirectional_endpoint(handle, graceful_shutdown=True)
