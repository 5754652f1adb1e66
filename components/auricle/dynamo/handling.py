"""Routes, and how a request that Dynamo delivers is opened, handled and answered."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

import msgspec

from auricle.core.aio import cancelled
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    OtherWireVersion,
    UntrustedCaller,
    WorkerUnavailable,
)
from auricle.dynamo.refusals import Refusals
from auricle.dynamo.signing import Verifier
from auricle.dynamo.wire import sealed_from_wire, to_wire
from auricle.process.logs import about
from auricle.protocol.control import Refusal

log = logging.getLogger(__name__)

T = TypeVar("T")


async def until_stopped(work: Awaitable[T], context: Any) -> T:
    """Return the result of `work`; cancel it if the caller of `context` (Dynamo's) leaves first.

    Raises WorkerUnavailable in that case.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(context.async_killed_or_stopped())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise WorkerUnavailable("the caller has gone")
        return task.result()
    finally:
        await cancelled([task, gone])


def stream_until_stopped(stream: AsyncGenerator[T, None], context: Any) -> AsyncGenerator[T, None]:
    """Return the items of `stream`; close it as soon as the caller leaves.

    The stream runs in this call's context variables (see process/logs.py), whichever task
    iterates over it.
    """
    return _stream_until_stopped(stream, context, contextvars.copy_context())


async def _stream_until_stopped(
    stream: AsyncGenerator[T, None], context: Any, variables: contextvars.Context
) -> AsyncGenerator[T, None]:
    gone = asyncio.ensure_future(context.async_killed_or_stopped())
    following: asyncio.Future[T] | None = None
    try:
        while True:
            following = asyncio.create_task(_next(stream), context=variables)
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return
            try:
                yield following.result()
            except StopAsyncIteration:
                return
    finally:
        await cancelled([one for one in (gone, following) if one is not None])
        await stream.aclose()


async def _next(stream: AsyncGenerator[T, None]) -> T:
    return await anext(stream)


Unary = Callable[[Any], Awaitable[msgspec.Struct]]
Streamed = Callable[[Any], AsyncGenerator[msgspec.Struct, None]]


@dataclass(frozen=True)
class Route:
    """An endpoint of this process: its name, its request's type or types, and a handler.

    Handlers run on the event loop and are cancelled when their caller leaves, except `brief`
    ones, which end soon by themselves.
    """

    name: str
    request: type[msgspec.Struct] | UnionType
    unary: Unary | None = None
    streamed: Streamed | None = None
    brief: bool = False


def handler(
    route: Route, opener: Verifier, refusals: Refusals
) -> Callable[[Any, Any], AsyncGenerator[Any, None]]:
    """Return a handler as Dynamo calls it: it opens the request and encodes the replies."""
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(route.request)
    kind = getattr(route.request, "__name__", str(route.request))

    async def handle(data: Any, context: Any) -> AsyncGenerator[Any, None]:
        ids: dict[str, str | None] = {}
        try:
            request = decoder.decode(opener.open(sealed_from_wire(data)))
            ids = {name: getattr(request, name, None) for name in ("session", "request")}
            if route.unary is not None:
                with about(**ids):
                    work = route.unary(request)
                    reply = await (work if route.brief else until_stopped(work, context))
                yield to_wire(reply)
            elif route.streamed is not None:
                with about(**ids):
                    replies = stream_until_stopped(route.streamed(request), context)
                async with aclosing(replies) as out:
                    async for message in out:
                        yield to_wire(message)
        except msgspec.DecodeError as error:
            log.warning("malformed %s: %s", kind, error)
            yield to_wire(Refusal(BadRequest.code, f"malformed {kind}"))
        except AuricleError as error:
            if isinstance(error, UntrustedCaller | OtherWireVersion):
                refusals.add(route.name, error)
            refusal = Refusal(error.code, str(error), error.keys, error.retry_after_seconds)
            yield to_wire(refusal)
        except Exception:  # one failing request must not end the endpoint
            # Errors of libraries may name files and hosts, so they only go to this process's log.
            log.exception("%s failed, session %s", route.name, ids.get("session"))
            yield to_wire(Refusal(AuricleError.code, f"{route.name} failed; see its worker's log"))

    return handle


# Registers a model that Dynamo's own frontend serves at `/v1/realtime`.
#
# That frontend calls us with a bidirectional stream, the only one in the system: Python clients of
# such an endpoint hang, so no component of ours calls one.

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
