"""A call on Dynamo's request plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any


class PlaneCall:
    """A call under way: iterate over its replies."""

    def __init__(self, replies: AsyncIterator[Any], context: Any) -> None:
        self._replies = replies
        self._context = context

    @classmethod
    async def begun(cls, client: Any, wire: dict[str, Any], instance: int) -> PlaneCall:
        """Send a request to an instance of the endpoint that `client` calls.

        If the caller is cancelled while the request is being opened, opening continues and the
        request is stopped then. If it were dropped midway, the other side would never learn that
        its caller has gone.
        """
        from dynamo.runtime import Context

        context = Context()
        sending = client.direct(wire, instance, annotated=False, context=context)
        opening = asyncio.ensure_future(sending)
        try:
            return cls(await asyncio.shield(opening), context)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: _stop(done, context))
            raise

    def __aiter__(self) -> AsyncIterator[Any]:
        return aiter(self._replies)

    def stop(self) -> None:
        """Want no more replies: the other side stops working on the request."""
        self._context.stop_generating()


def _stop(opened: asyncio.Future[Any], context: Any) -> None:
    if not opened.cancelled() and opened.exception() is None:
        context.stop_generating()
