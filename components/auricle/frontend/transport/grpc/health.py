"""gRPC's health checking: the same status as `GET /health`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Container

from auricle.core.aio import with_timeout
from auricle.core.errors import UnsupportedValue
from auricle.core.sanitize import quoted
from auricle.frontend.transport.admission import Readiness
from auricle.frontend.transport.grpc.incoming import (
    Context,
    Incoming,
    Method,
    Methods,
    only_message,
)
from auricle.frontend.transport.grpc.schema import message, parsed

SERVICE = "grpc.health.v1.Health"
_MESSAGE_SECONDS = 10.0
_READER_SECONDS = 20.0
_CHECK_SECONDS = 1.0
_WATCH_SECONDS = 3600.0  # then a client that is still there asks again
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3  # of the enum ServingStatus


class Health:
    """Answers whether sessions can be served. No key is needed.

    `readiness` returns whether clients should be sent here; `services` are those that are
    served here, and the empty name stands for all of them.
    """

    def __init__(
        self,
        readiness: Callable[[], Awaitable[Readiness]],
        services: Container[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readiness = readiness
        self._services = services
        self._clock = clock

    @property
    def methods(self) -> Methods:
        watch = Method(self.watch, streams=True, open=True)
        return {SERVICE: {"Check": Method(self.check, open=True), "Watch": watch}}

    async def check(self, _incoming: Incoming, context: Context) -> bytes:
        """Answer once. Raises UnsupportedValue."""
        service = await self._asked(context)
        status = await self._status(service)
        if status == _SERVICE_UNKNOWN:
            error = UnsupportedValue(f"the service {quoted(service)} is not here", "service")
            error.http_status = 404  # as the protocol has it
            raise error
        return _response(status)

    async def watch(self, _incoming: Incoming, context: Context) -> None:
        """Answer at once, and again at each change, until the client leaves or an hour is over."""
        service = await self._asked(context)
        sent, until = None, self._clock() + _WATCH_SECONDS
        while self._clock() < until:
            if (status := await self._status(service)) != sent:
                writing = context.write(_response(status))
                await with_timeout(_READER_SECONDS, writing, "reading sent data")
                sent = status
            await asyncio.sleep(_CHECK_SECONDS)

    async def _asked(self, context: Context) -> str:
        request = await with_timeout(_MESSAGE_SECONDS, only_message(context), "the call's message")
        return str(parsed("grpc.health.v1.HealthCheckRequest", request).service)

    async def _status(self, service: str) -> int:
        if service and service not in self._services:
            return _SERVICE_UNKNOWN
        return _SERVING if (await self._readiness()).ready else _NOT_SERVING


def _response(status: int) -> bytes:
    response = message("grpc.health.v1.HealthCheckResponse")(status=status)
    data: bytes = response.SerializeToString()
    return data
