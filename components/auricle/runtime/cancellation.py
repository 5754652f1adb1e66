"""Cancels work whose caller has gone (`context` is Dynamo's request context)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, TypeVar

from auricle.errors import WorkerUnavailable
from auricle.tasks import cancelled

T = TypeVar("T")


async def until_stopped(work: Awaitable[T], context: Any) -> T:
    """Return the result of `work`; if the caller leaves first, cancel it.

    Raises WorkerUnavailable in that case, which nobody receives.
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
    """Return the items of `stream`; end and close it as soon as the caller leaves.

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
