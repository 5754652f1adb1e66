"""The metadata of gRPC calls, their methods, and errors as gRPC statuses. No I/O."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as StatusProto

from auricle.core.errors import AuricleError, Overloaded, ProtocolError
from auricle.frontend.transport.addresses import (
    Network,
    Networks,
    address_of,
    host_of,
    networks_of,
    within,
)
from auricle.frontend.transport.slots import NetworkLimit

Peer = tuple[str, int] | None


class Context(Protocol):
    """gRPC's context of a call whose messages are bytes. A `read` must not be cancelled."""

    async def read(self) -> Any:
        """Return the next message, or something else than bytes after the last one."""
        ...

    async def write(self, message: bytes) -> None:
        """Send a message; waits while the client does not read."""
        ...

    async def send_initial_metadata(self, initial_metadata: Sequence[tuple[str, str]]) -> None: ...


class Arriving(Protocol):
    """A call on its way in. Until its client is admitted, messages are small, and counted."""

    @property
    def peer(self) -> Peer: ...

    @property
    def failure(self) -> AuricleError | None:
        """The error with which the frontend has ended the call."""
        ...

    def known(self, tenant: str) -> None:
        """The client has shown the key of `tenant`, and may send large messages, which are counted
        for it. Raises RateLimited."""
        ...

    def wait(self, limit: NetworkLimit, networks: Networks) -> None:
        """Count within `limit` while the client is not admitted. Raises RateLimited or
        Overloaded."""
        ...

    def admitted(self) -> AbstractContextManager[None]:
        """The client has a session or a recording in this block, which bound its messages."""
        ...


@dataclass(frozen=True)
class Incoming:
    """`metadata` has lower-case names; `peer` is the client's address."""

    metadata: dict[str, str]
    peer: Peer
    call: Arriving

    @property
    def host(self) -> str:
        return host_of(self.peer)

    @property
    def networks(self) -> Networks:
        """The networks that the client counts for."""
        return networks_of(self.peer)

    @property
    def address(self) -> str:
        return address_of(self.peer)


@dataclass(frozen=True)
class Method:
    """Serves the calls of one method; `streams`: its answers are any number of messages.

    `serve` returns the only answer of one that does not, and raises AuricleError. `open`: no key
    is needed, so its calls are never admitted.
    """

    serve: Callable[[Incoming, Context], Awaitable[bytes | None]]
    streams: bool = False
    open: bool = False


# By full service name, then by the method's name.
Methods = dict[str, dict[str, Method]]


def incoming_of(
    call: Arriving, metadata: Iterable[tuple[str, str | bytes]], proxies: Sequence[Network]
) -> Incoming:
    """Return a call's metadata and client; `proxies` may name the client that they forward."""
    texts = {key: value for key, value in metadata if isinstance(value, str)}
    peer = _behind(call.peer, texts.get("x-forwarded-for", ""), proxies)
    return Incoming(texts, peer, call)


async def warn(context: Context, warnings: Sequence[str]) -> None:
    """Report options without effect, as metadata `warning`. Call it before any answer."""
    if warnings:
        with suppress(Exception):  # a client that has left is noticed elsewhere
            await context.send_initial_metadata([("warning", text) for text in warnings])


async def only_message(context: Context) -> bytes:
    """Return a unary call's message. Raises ProtocolError if the client sends none."""
    message = await context.read()
    if not isinstance(message, bytes):
        raise ProtocolError("the call has no message, or one that is too large")
    return message


def _behind(peer: Peer, forwarded: str, proxies: Sequence[Network]) -> Peer:
    """Return the last address that no trusted proxy has, of those that a trusted one names."""
    for name in reversed(forwarded.split(",")):
        if not within(peer, proxies) or not name.strip():
            break
        peer = (name.strip(), 0)
    return peer


# Errors as gRPC statuses, with the details that gRPC's users expect. No I/O.

_DOMAIN = "auricle"
Metadata = tuple[tuple[str, str | bytes], ...]


class Code(IntEnum):
    """The codes that are sent; their names are gRPC's."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


_CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    408: Code.DEADLINE_EXCEEDED,
    413: Code.INVALID_ARGUMENT,
    429: Code.RESOURCE_EXHAUSTED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
    507: Code.RESOURCE_EXHAUSTED,
}


@dataclass(frozen=True)
class Status:
    """How a call ends that failed; `metadata` follows it."""

    code: Code
    message: str
    metadata: Metadata


def status_of(error: AuricleError, *, draining: bool = False) -> Status:
    """Return the status of an error. A server that is `draining` is not full but unavailable.

    Its details are ErrorInfo, whose reason is the error's code, and RetryInfo if the error has
    a retry time; clients without the library that reads details find `retry-after`, in seconds.
    """
    code = _CODES.get(error.http_status, Code.INTERNAL)
    if isinstance(error, Overloaded) and not draining:
        code = Code.RESOURCE_EXHAUSTED
    status = StatusProto(code=code, message=error.for_client)
    param = {} if error.param is None else {"param": error.param}
    status.details.add().Pack(ErrorInfo(reason=error.code, domain=_DOMAIN, metadata=param))
    metadata: Metadata = ()
    if seconds := math.ceil(error.retry_after_seconds):
        retry = RetryInfo()
        retry.retry_delay.FromSeconds(seconds)
        status.details.add().Pack(retry)
        metadata = (("retry-after", str(seconds)),)
    return Status(
        code,
        error.for_client,
        (*metadata, ("grpc-status-details-bin", status.SerializeToString())),
    )
