"""What is known of a gRPC call before its first message, and what handles it. No I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from auricle.errors import ProtocolError
from auricle.frontend.doors.addresses import Network, address_of, host_of, within

Peer = tuple[str, int] | None


class Context(Protocol):
    """gRPC's context of a call whose messages are bytes. A `read` must not be cancelled."""

    async def read(self) -> Any:
        """Return the next message, or something else than bytes after the last one."""
        ...

    async def write(self, message: bytes) -> None:
        """Send a message; waits while the client does not read."""
        ...

    async def send_initial_metadata(self, initial_metadata: Sequence[tuple[str, str]]) -> None:
        """Send metadata ahead of all messages."""
        ...


@dataclass(frozen=True)
class Incoming:
    """`metadata` has lower-case names; `peer` is the client's address."""

    metadata: dict[str, str]
    peer: Peer

    @property
    def host(self) -> str:
        """Who counts as one client."""
        return host_of(self.peer)

    @property
    def address(self) -> str:
        """The client's address, for the log."""
        return address_of(self.peer)


@dataclass(frozen=True)
class Method:
    """Serves the calls of one method; `streams`: its answers are any number of messages.

    `serve` returns the only answer of one that does not, and raises AuricleError.
    """

    serve: Callable[[Incoming, Context], Awaitable[bytes | None]]
    streams: bool = False


# By full service name, then by the method's name.
Methods = dict[str, dict[str, Method]]


def incoming_of(
    peer: str, metadata: Iterable[tuple[str, str | bytes]], proxies: Sequence[Network]
) -> Incoming:
    """Return what gRPC says of a call; `proxies` are those who may say for whom it is."""
    texts = {key: value for key, value in metadata if isinstance(value, str)}
    return Incoming(texts, _behind(_peer(peer), texts.get("x-forwarded-for", ""), proxies))


async def warn(context: Context, warnings: Sequence[str]) -> None:
    """Tell a client what has no effect, as metadata `warning`. Call it before any answer."""
    if warnings:
        with suppress(Exception):  # a client that has left is noticed elsewhere
            await context.send_initial_metadata([("warning", text) for text in warnings])


async def only_message(context: Context) -> bytes:
    """Return a unary call's message. Raises ProtocolError if the client sends none."""
    message = await context.read()
    if not isinstance(message, bytes):
        raise ProtocolError("the call has no message, or one that is too large")
    return message


def _peer(text: str) -> Peer:
    """Parse `ipv4:1.2.3.4:5` or `ipv6:[::1]:5`, which may be percent-encoded."""
    kind, _, rest = unquote(text).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not (port.isascii() and port.isdigit()):
        return None
    return host.strip("[]"), int(port)


def _behind(peer: Peer, forwarded: str, proxies: Sequence[Network]) -> Peer:
    """Return the last address that no trusted proxy has, of those that a trusted one names."""
    for name in reversed(forwarded.split(",")):
        if not within(peer, proxies) or not name.strip():
            break
        peer = (name.strip(), 0)
    return peer
