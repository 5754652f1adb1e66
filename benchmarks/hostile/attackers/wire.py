"""Raw connections to a graph."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from pathlib import Path

import msgspec

# A server answers within this time, or it hangs.
ANSWER_SECONDS = 5.0
# The time in which a server reports an error before the client ends its side.
PATIENCE = 0.15
# None of these addresses is the witness's, and together they stay below limits of one address.
_SOURCES = itertools.cycle([f"127.0.0.{number}" for number in range(2, 34)])
_MOST_READ = 1 << 20
MOST_JOBS = 100  # that the frontend has room for


class AttackerFailed(Exception):
    """The attacker could not do its part; the server may be right."""


class Hung(Exception):
    """No answer for ANSWER_SECONDS where one was due."""


class Port(msgspec.Struct, frozen=True):
    """A TCP port or Unix socket (`path`) of a process of the graph.

    It is bound to `bound` and reachable at `host`. A process serves HTTP on its `system` port.
    """

    component: str = ""
    host: str = ""
    bound: str = ""
    number: int = 0
    system: bool = False
    path: str = ""


class Target(msgspec.Struct, frozen=True):
    """An attacker's knowledge of a running graph.

    It has the keys of the attacker, of a `newcomer` during an attack and of a tenant that is
    switched off (empty without keys), the witness's session and tenant, the ports inside the graph,
    the path of a recording, the frontend's other ports (0 without one), the address of the
    transcript bus, and the bytes of uploads that the frontend may store.
    """

    host: str
    port: int
    key: str
    newcomer: str
    withdrawn: str
    model: str
    discovery: str
    ports: tuple[Port, ...]
    audio: str
    witness: str = ""
    tenant: str = "witness"
    wyoming_port: int = 0
    audiosocket_port: int = 0
    grpc_port: int = 0
    nats: str = ""
    stored_bytes: int = 0

    @property
    def url(self) -> str:
        """The address of the frontend."""
        return f"http://{self.host}:{self.port}"

    def place(self, name: str, which: float = 0.0) -> Port:
        """Return the frontend's port of that protocol, or one (0 to 1) of the `ports` inside the
        graph, or of the HTTP `servers` inside it. Raises AttackerFailed if there is none."""
        if name not in ("ports", "servers"):
            number = self.port if name == "http" else getattr(self, f"{name}_port")
            return Port(host=self.host, number=number)
        found = [one for one in self.ports
                 if name == "ports" or one.system or "launcher.sock" in one.path]  # fmt: skip
        if not found:
            raise AttackerFailed(f"the graph has no {name} inside")
        return found[int(which * len(found))]


class Wire:
    """One connection of an attacker.

    A closed connection is not an error: sending has no effect then, and reading returns b"".
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.unread = bytearray()

    @classmethod
    async def open(cls, port: Port, address: str = "") -> Wire:
        """Connect, from `address` or one of `_SOURCES`. Raises Hung, or AttackerFailed if this
        side cannot."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if port.path:
                    return cls(*await asyncio.open_unix_connection(Path(port.path)))
                source = (address or next(_SOURCES), 0)
                return cls(*await asyncio.open_connection(
                    port.host, port.number, local_addr=source, limit=_MOST_READ
                ))  # fmt: skip
        except TimeoutError:
            raise Hung("the connection was not accepted") from None
        except OSError as error:
            raise AttackerFailed(f"cannot connect: {error}") from None

    @property
    def closed(self) -> bool:
        """Whether the server has closed, as far as sending has shown it."""
        return self._writer.transport.is_closing()

    async def send(self, data: bytes) -> None:
        """Send; return early if the server has closed or does not read (backpressure)."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            self._writer.write(data)
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._writer.drain()

    async def receive(self, seconds: float | None = None) -> bytes:
        """Return the next bytes, b"" once the server has closed. Raises Hung after `seconds`."""
        seconds = ANSWER_SECONDS if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                data = await self._reader.read(1 << 16)
        except ConnectionError:
            return b""
        except TimeoutError:
            raise Hung(f"no answer for {seconds:g} s") from None
        self.unread += data
        return data

    async def rest(self, patience: float | None = None) -> bytes:
        """Read until the server closes, and return all unread bytes.

        After `patience` without news the attacker ends its side. Raises Hung unless the server then
        closes, too.
        """
        try:
            while await self.receive(patience):
                pass
        except Hung:
            if patience is None:
                raise
            with contextlib.suppress(OSError, NotImplementedError):
                self._writer.write_eof()
            while await self.receive() and len(self.unread) < _MOST_READ:
                pass
        return bytes(self.unread)

    async def message(self, seconds: float | None = None) -> tuple[int, bytes] | None:
        """Return opcode and payload of the next frame; None once the server has closed."""
        data = self.unread
        while True:
            short = data[1] & 127 if len(data) > 1 else 0
            at = {126: 4, 127: 10}.get(short, 2)
            end = at + (short if at == 2 else int.from_bytes(data[2:at], "big"))
            if len(data) >= at and len(data) >= end:
                break
            if not await self.receive(seconds):
                return None
        opcode, payload = data[0] & 15, bytes(data[at:end])
        del data[:end]
        return opcode, payload

    def close(self, *, abrupt: bool = False) -> None:
        """Close, with a reset if `abrupt`."""
        if abrupt and (inner := self._writer.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort() if abrupt else self._writer.close()
