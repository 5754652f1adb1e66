"""Raw connections, and what comes back on them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

# Within this a server answers, or has hung.
ANSWER_SECONDS = 5.0
# No address is that of the witness, and limits of one address are not met by accident.
_SOURCES = itertools.cycle([f"127.0.0.{number}" for number in range(2, 34)])
_MOST_READ = 1 << 20


class AttackerFailed(Exception):
    """The attacker could not do its part; this says nothing of the server."""


class Hung(Exception):
    """Nothing came for ANSWER_SECONDS where something had to."""


@dataclass(frozen=True)
class Address:
    """Where to attack: host and port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer; `stays`: the server keeps the connection open."""

    status: int
    headers: dict[str, str]
    body: bytes
    stays: bool

    @property
    def retry_after(self) -> bool:
        """Whether it says when to come again."""
        return "retry-after" in self.headers


class Wire:
    """One connection of an attacker. Waits end after ANSWER_SECONDS with Hung.

    That the server has closed is no error: sending does nothing then, and reading returns b"".
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.unread = bytearray()

    @classmethod
    async def open(cls, address: Address) -> Wire:
        """Connect. Raises Hung if the server does not take the connection, AttackerFailed if this
        side cannot."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if address.path:
                    return cls(*await asyncio.open_unix_connection(Path(address.path)))
                source = (next(_SOURCES), 0)
                pair = await asyncio.open_connection(
                    address.host, address.port, local_addr=source, limit=_MOST_READ
                )
                return cls(*pair)
        except TimeoutError:
            raise Hung("the connection was not taken") from None
        except OSError as error:
            raise AttackerFailed(f"cannot connect: {error}") from None

    async def send(self, data: bytes) -> None:
        """Send; returns early if the server has closed or does not take it (backpressure)."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            self._writer.write(data)
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._writer.drain()

    async def receive(self, seconds: float | None = None) -> bytes:
        """Return what comes next; b"" once the server has closed. Raises Hung, after
        ANSWER_SECONDS if nothing else is said."""
        seconds = ANSWER_SECONDS if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                data = await self._reader.read(1 << 16)
        except ConnectionError:
            return b""
        except TimeoutError:
            raise Hung(f"nothing for {seconds:g} s") from None
        self.unread += data
        return data

    async def hears_end(self, patience: float) -> bool:
        """Send the end; return whether the server had answered or closed before, within
        `patience` seconds. Raises Hung unless the server closes after that."""
        answered = True
        try:
            while await self.receive(patience):
                pass
        except Hung:
            answered = bool(self.unread)
            with contextlib.suppress(OSError, NotImplementedError):
                self._writer.write_eof()
            while await self.receive():
                if len(self.unread) > _MOST_READ:
                    break
        return answered

    async def glance(self, seconds: float) -> None:
        """Read what comes within so many seconds, if anything does."""
        with contextlib.suppress(Hung):
            await self.receive(seconds)

    def close(self, *, abrupt: bool = False) -> None:
        """Close, with a reset if `abrupt`."""
        if abrupt and (inner := self._writer.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort() if abrupt else self._writer.close()

    async def http(self, *, head: bool = False) -> HttpAnswer | None:
        """Read one HTTP answer (`head`: to a HEAD request); None if the server closes first."""
        while (end := self.unread.find(b"\r\n\r\n")) < 0:
            if not await self.receive():
                return None
        lines = bytes(self.unread[:end]).decode("latin-1").split("\r\n")
        del self.unread[: end + 4]
        version, _, status = lines[0].partition(" ")
        if not version.startswith("HTTP/") or not status[:3].isdigit():
            raise AttackerFailed(f"not HTTP: {lines[0][:80]!r}")
        pairs = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        number = int(status[:3])
        if number == 100:
            return await self.http(head=head)
        body = b"" if head or number in (101, 204, 304) else await self._body(headers)
        return HttpAnswer(number, headers, body, headers.get("connection", "") != "close")

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            return await self._chunks()
        if (length := headers.get("content-length")) is None:
            while await self.receive():
                pass
            return self._taken(len(self.unread))
        while len(self.unread) < int(length):
            if not await self.receive():
                break
        return self._taken(int(length))

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            while (end := self.unread.find(b"\r\n")) < 0:
                if not await self.receive():
                    return body
            size = int(bytes(self.unread[:end]).split(b";")[0], 16)
            while len(self.unread) < end + 4 + size:
                if not await self.receive():
                    return body + bytes(self.unread[end + 2 :])
            body += bytes(self.unread[end + 2 : end + 2 + size])
            del self.unread[: end + 4 + size]
            if not size:
                return body

    def _taken(self, size: int) -> bytes:
        taken = bytes(self.unread[:size])
        del self.unread[:size]
        return taken

    def frame(self) -> tuple[int, bytes] | None:
        """Return opcode and payload of the next whole frame that has arrived, if there is one."""
        data = self.unread
        if len(data) < 2:
            return None
        size, at = data[1] & 127, 2
        if size >= 126:
            at = 4 if size == 126 else 10
            if len(data) < at:
                return None
            size = int.from_bytes(data[2:at], "big")
        if len(data) < at + size:
            return None
        opcode, payload = data[0] & 15, bytes(data[at : at + size])
        del data[: at + size]
        return opcode, payload
