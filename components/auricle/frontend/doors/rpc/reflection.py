"""gRPC's server reflection: tools such as grpcurl learn the services without .proto files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FileDescriptor

from auricle.frontend.doors.rpc.incoming import Context, Incoming, Method, Methods
from auricle.frontend.doors.rpc.schema import message, parsed, pool
from auricle.frontend.doors.rpc.statuses import Code
from auricle.tasks import within

_PACKAGE = "grpc.reflection.v1"
SERVICE = f"{_PACKAGE}.ServerReflection"
# Older clients ask for this one. Its messages are the same.
_ALPHA = "grpc.reflection.v1alpha.ServerReflection"
_IDLE_SECONDS = 60.0
_READER_SECONDS = 20.0
_UNIMPLEMENTED = 12


class Reflection:
    """Describes `services` by their full names. No key is needed, as the schema is public."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = services

    @property
    def methods(self) -> Methods:
        """The methods of the service, under both of its names."""
        methods = {"ServerReflectionInfo": Method(self.info, streams=True)}
        return {SERVICE: methods, _ALPHA: methods}

    async def info(self, _incoming: Incoming, context: Context) -> None:
        """Answer each question until the client has no more, or has asked none for a minute."""
        while True:
            data = await within(_IDLE_SECONDS, context.read(), "the next question")
            if not isinstance(data, bytes):
                return
            answer = self.answer(parsed(f"{_PACKAGE}.ServerReflectionRequest", data))
            await within(_READER_SECONDS, context.write(answer), "reading what was sent")

    def answer(self, request: Any) -> bytes:
        """Return the answer to one question."""
        response = message(f"{_PACKAGE}.ServerReflectionResponse")(
            valid_host=request.host, original_request=request
        )
        try:
            match request.WhichOneof("message_request"):
                case "list_services":
                    for name in self._services:
                        response.list_services_response.service.add(name=name)
                case "file_by_filename":
                    _describe(response, pool().FindFileByName(request.file_by_filename))
                case "file_containing_symbol":
                    symbol = request.file_containing_symbol
                    _describe(response, pool().FindFileContainingSymbol(symbol))
                case _:
                    _fail(response, _UNIMPLEMENTED, "there are no extensions here")
        except KeyError:
            _fail(response, Code.NOT_FOUND, "there is nothing of that name here")
        described: bytes = response.SerializeToString()
        return described


def _describe(response: Any, file: FileDescriptor) -> None:
    """Put a file's description, and those of all files that it imports, into the response."""
    waiting, seen = [file], {file.name: file.serialized_pb}
    while waiting:
        for imported in waiting.pop().dependencies:
            if imported.name not in seen:
                seen[imported.name] = imported.serialized_pb
                waiting.append(imported)
    response.file_descriptor_response.file_descriptor_proto.extend(seen.values())


def _fail(response: Any, code: int, words: str) -> None:
    response.error_response.error_code = int(code)
    response.error_response.error_message = words
