"""WebSockets whose client authenticates in its first messages, not at the handshake.

Telephone networks open them, and can send neither a header nor a query.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from fastapi import WebSocket

from auricle.core.aio import ReusableTimeout
from auricle.core.errors import AuricleError, ProtocolError
from auricle.frontend.transport.addresses import address_of, host_of
from auricle.frontend.transport.admission import SessionAdmission, shutting_down
from auricle.frontend.transport.disconnect import ClientDisconnected, check_connected
from auricle.frontend.transport.live_sessions import LiveSessions
from auricle.frontend.transport.request_errors import error_response
from auricle.frontend.transport.websockets import close_reason, close_socket

log = logging.getLogger(__name__)
_DONE, _GOING = 1000, 1012  # close codes of connections that end without an error


class InBandAuthSocket:
    """One accepted connection. Call its methods on the event loop; one task may `receive`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._timeout = ReusableTimeout()
        self._farewell = (_DONE, "")

    @property
    def host(self) -> str:
        return host_of(self._socket.client)

    @property
    def address(self) -> str:
        return address_of(self._socket.client)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._socket.headers

    async def receive(self, seconds: float, what: str) -> str:
        """Return the next message.

        Raises ClientDisconnected once the client has left, DeadlineExceeded, naming `what`, if
        nothing came for `seconds`, Interrupted after `interrupt`, and ProtocolError for a binary
        message.
        """
        message = await self._timeout.wait(seconds, self._socket.receive(), what)
        check_connected(message)
        text = message.get("text")
        if text is None:
            raise ProtocolError("binary messages are not part of this protocol; send JSON")
        return str(text)

    def interrupt(self) -> None:
        """End the `receive` in progress, if any, with Interrupted."""
        self._timeout.interrupt()

    def goes(self) -> None:
        """The connection will end early, with close code 1012."""
        self._farewell = (_GOING, "this server is shutting down")

    async def close_normally(self) -> None:
        await self.close(*self._farewell)

    async def close(self, code: int, reason: str) -> None:
        """Close the connection. Never raises."""
        self._timeout.close()
        await close_socket(self._socket, code, reason)


@dataclass(frozen=True)
class InBandAuthProtocol:
    """`serve` talks to one client until it is done, or raises. `check` raises an AuricleError with
    which every client is refused at the handshake."""

    name: str
    serve: Callable[[InBandAuthSocket], Awaitable[None]]
    check: Callable[[], None] = lambda: None


class InBandAuthSockets:
    """Serves such connections. Until its client has begun, one is bounded as any connection is."""

    def __init__(self, admission: SessionAdmission, sessions: LiveSessions) -> None:
        self._admission = admission
        self._sessions = sessions

    async def serve(self, socket: WebSocket, protocol: InBandAuthProtocol) -> None:
        """Serve one connection until it is closed. Its close code and reason tell an error."""
        address = address_of(socket.client)
        try:
            with self._sessions.connection(protocol.name, address):
                if self._admission.draining:
                    raise shutting_down()
                protocol.check()
        except AuricleError as error:
            await socket.send_denial_response(error_response(error))
            return
        await socket.accept()
        connection = InBandAuthSocket(socket)
        try:
            with (
                self._sessions.connection(protocol.name, address),
                self._admission.interrupting(connection.interrupt),
            ):
                await protocol.serve(connection)
            await connection.close_normally()
        except ClientDisconnected:
            log.debug("the client of %s has left", protocol.name)
        except AuricleError as error:
            await connection.close(error.close_code, close_reason(error))
