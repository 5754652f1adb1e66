"""gRPC's server reflection: tools such as grpcurl learn the services without .proto files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from auricle.core.aio import with_timeout
from auricle.frontend.transport.grpc.incoming import Context, Incoming, Method, Methods
from auricle.frontend.transport.grpc.schema import parsed, pool

SERVICE = "grpc.reflection.v1.ServerReflection"
# Older clients ask for this one. Its messages are the same.
_ALPHA = "grpc.reflection.v1alpha.ServerReflection"
_IDLE_SECONDS = 60.0
_READER_SECONDS = 20.0


class Reflection:
    """Describes `services` by their full names. No key is needed, as the schema is public."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = services

    @property
    def methods(self) -> Methods:
        """The methods of the service, under both of its names."""
        methods = {"ServerReflectionInfo": Method(self.info, streams=True, open=True)}
        return {SERVICE: methods, _ALPHA: methods}

    async def info(self, _incoming: Incoming, context: Context) -> None:
        """Answer each question until the client has no more, or has asked none for a minute."""
        from grpc_reflection.v1alpha.reflection import aio  # imports gRPC

        servicer = aio.ReflectionServicer(self._services, pool())
        async for answer in servicer.ServerReflectionInfo(_questions(context), context):
            writing = context.write(answer.SerializeToString())
            await with_timeout(_READER_SECONDS, writing, "reading sent data")


async def _questions(context: Context) -> AsyncIterator[Any]:
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

    while True:
        data = await with_timeout(_IDLE_SECONDS, context.read(), "the next question")
        if not isinstance(data, bytes):
            return
        parsed("grpc.reflection.v1.ServerReflectionRequest", data)  # is valid and not too large
        yield ServerReflectionRequest.FromString(data)
