"""What all WebSocket protocols share: who may connect, how many, and how connections end."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fastapi import WebSocket, WebSocketDisconnect

from auricle.audio.pcm import milliseconds
from auricle.errors import UNFORESEEN, AuricleError
from auricle.frontend.access.gate import Access, subprotocols
from auricle.frontend.access.limits import Client
from auricle.frontend.backend import Backend
from auricle.frontend.http_errors import error_response
from auricle.logs import about
from auricle.tasks import Patience, within
from auricle.tracing import NO_TRACE

log = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0
# Close codes: 1000 done, 1008 the client's fault, 1009 a frame too large (by the WebSocket
# library), 1011 ours, 1012 this server goes, 1013 try again later.
_DONE, _GOING = 1000, 1012
_CLOSE_CODES = {
    "bad_request": 1008,
    "protocol": 1008,
    "unsupported_value": 1008,
    "model_not_found": 1008,
    "rate_limited": 1013,
    "overloaded": 1013,
    "deadline": 1008,
}
_INTERNAL = 1011


class ClientGone(Exception):
    """The client closed or vanished; there is nobody to tell anything."""


class ClientSocket:
    """One accepted connection and whose it is. Raises ClientGone once the client has left."""

    def __init__(
        self, socket: WebSocket, client: Client, slow_reader_seconds: float, stretch: int
    ) -> None:
        """What the socket buffers is all that waits for a slow reader.

        The cadence of the connection's sessions is `stretch` times what they ask for.
        """
        self._socket = socket
        self._slow_reader_seconds = slow_reader_seconds
        self.client = client
        self.stretch = stretch
        self.session = f"sess_{uuid.uuid4().hex}"
        self.trace = NO_TRACE
        self._patience = Patience()
        self._farewell = (_DONE, "")  # where nothing goes wrong

    @property
    def query(self) -> dict[str, str]:
        """Of the address the client connected to."""
        return dict(self._socket.query_params)

    async def receive(self, seconds: float, what: str) -> tuple[str | None, bytes]:
        """(text, b"") or (None, binary). Raises DeadlineExceeded, or Interrupted where this
        frontend is about to go."""
        message = await self._patience.wait(seconds, self._socket.receive(), what)
        if message["type"] == "websocket.disconnect":
            raise ClientGone
        text = message.get("text")
        return (text, b"") if text is not None else (None, message.get("bytes") or b"")

    async def gone(self) -> None:
        """Wait for the client to leave or to send something more."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise ClientGone

    async def send(self, text: str) -> None:
        """Raises DeadlineExceeded if the client does not read."""
        try:
            sending = self._socket.send_text(text)
            await within(self._slow_reader_seconds, sending, "reading what was sent")
        except (WebSocketDisconnect, RuntimeError):
            raise ClientGone from None

    def interrupt(self) -> None:
        """End a `receive` that waits."""
        self._patience.interrupt()

    def goes_at(self, samples: int) -> None:
        """The session ends well, but before its client's audio: it may go on elsewhere.

        `samples` (16 kHz) are those whose text it gets here.
        """
        reason = f"this server is about to go; audio up to {milliseconds(samples)} ms was taken"
        self._farewell = (_GOING, reason)

    async def bid_farewell(self) -> None:
        """The session is over and nothing went wrong."""
        await self.close(*self._farewell)

    async def close(self, code: int, reason: str = "") -> None:
        """The connection is over, whatever the client makes of it."""
        self._patience.close()
        try:
            # A control frame has room for 123 bytes.
            short = reason.encode()[:120].decode(errors="ignore")
            await within(_CLOSE_SECONDS, self._socket.close(code, short), "closing")
        except (WebSocketDisconnect, RuntimeError, AuricleError):
            log.debug("the client left before it was told to")


@dataclass(frozen=True)
class SocketProtocol:
    """`serve` runs a session until it is done; `error` is what a client is told of a failure."""

    name: str
    serve: Callable[[ClientSocket], Awaitable[None]]
    error: Callable[[AuricleError], str]
    subprotocols: Sequence[str] = ()


class SocketSessions:
    """All WebSocket sessions of this frontend, whatever their protocol."""

    def __init__(self, backend: Backend, access: Access) -> None:
        self._tracer = backend.tracer
        self._front_door = backend.front_door
        self._slow_reader_seconds = backend.settings.slow_reader_seconds
        self._access = access
        self._metrics = backend.metrics

    async def serve(self, socket: WebSocket, protocol: SocketProtocol) -> None:
        """The whole life of one connection. Never raises for what a client did.

        Who cannot be served now is told at the handshake, before it sends anything.
        """
        try:
            client = self._access.client(socket.headers)
            with self._front_door.counted():
                stretch = await self._front_door.stretch(client.tenant)
                await self._serve(socket, protocol, client, stretch)
        except AuricleError as error:
            self._metrics.ended(error.code)
            await socket.send_denial_response(error_response(error))

    async def _serve(
        self, socket: WebSocket, protocol: SocketProtocol, client: Client, stretch: int
    ) -> None:
        offered = subprotocols(socket.headers)
        await socket.accept(next((name for name in offered if name in protocol.subprotocols), None))
        connection = ClientSocket(socket, client, self._slow_reader_seconds, stretch)
        try:
            with self._front_door.interrupting(connection.interrupt):
                async with client.session():
                    await self._traced(connection, protocol)
            self._metrics.ended("done")
            await connection.bid_farewell()
        except ClientGone:
            self._metrics.ended("client_gone")
        except AuricleError as error:
            await self._refuse(connection, protocol, error)
        except Exception:
            log.exception("a session failed in a way nobody thought of")
            await self._refuse(connection, protocol, AuricleError(UNFORESEEN))

    async def _traced(self, connection: ClientSocket, protocol: SocketProtocol) -> None:
        """One trace and one name in the logs for the whole session."""
        with (
            about(session=connection.session, tenant=connection.client.tenant),
            self._tracer.span(
                "session",
                protocol=protocol.name,
                session=connection.session,
                tenant=connection.client.tenant,
            ) as trace,
        ):
            connection.trace = trace
            await protocol.serve(connection)

    async def _refuse(
        self, connection: ClientSocket, protocol: SocketProtocol, error: AuricleError
    ) -> None:
        """Tell the client what went wrong, then close."""
        self._metrics.ended(error.code)
        code = _CLOSE_CODES.get(error.code, _INTERNAL)
        if code == _INTERNAL:
            log.error("session failed: %s", error)
        try:
            await connection.send(protocol.error(error))
        except (ClientGone, AuricleError):
            log.debug("the client left before the error reached it")
        await connection.close(code, str(error))
