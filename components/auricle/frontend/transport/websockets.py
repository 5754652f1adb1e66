"""The shared part of WebSocket protocols: authentication, admission, deadlines, close codes."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fastapi import WebSocket, WebSocketDisconnect

from auricle.core.aio import ReusableTimeout, TimeSlice, with_timeout
from auricle.core.errors import AuricleError, DeadlineExceeded
from auricle.core.limits import query_fields
from auricle.frontend.transport.access.gate import Access, accepted_subprotocol
from auricle.frontend.transport.access.limits import ClientAccount
from auricle.frontend.transport.addresses import address_of, host_of
from auricle.frontend.transport.admission import SessionAdmission, farewell
from auricle.frontend.transport.disconnect import ClientDisconnected, check_connected
from auricle.frontend.transport.live_sessions import LiveSession, LiveSessions, Record
from auricle.frontend.transport.request_errors import (
    error_response,
    is_resuming,
    query_string,
    wants_refusal_message,
)
from auricle.frontend.transport.slots import SessionSlot
from auricle.frontend.transport.websocket_protocol import JOIN, PING

log = logging.getLogger(__name__)

# Closes WebSockets, however far gone they are.

_CLOSE_SECONDS = 5.0
_REASON_BYTES = 120  # a control frame has room for 123
_MOST_LATE = 1_000  # messages after the end: clients may send KeepAlive until they have the text


async def close_socket(socket: WebSocket, code: int, reason: str = "") -> None:
    """Close the connection. Never raises; gives up after 5 s."""
    try:
        short = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        await with_timeout(_CLOSE_SECONDS, socket.close(code, short), "closing")
    except (WebSocketDisconnect, RuntimeError, AuricleError):
        log.debug("the client left before the close frame was sent")


def close_reason(error: AuricleError) -> str:
    """Return the reason of the close frame of a refused client, with the time to retry."""
    after = error.retry_after_seconds
    return error.for_client + (f"; come again in {math.ceil(after)} s" if after else "")


# Close codes of sessions that ended without an error; each error class has its own.
_DONE, _GOING = 1000, 1012


def _not_joined(_enough: int) -> bool:
    """In place of `WebSocketProtocol.join`, of a server that delivers each message by itself."""
    return False


class ClientSocket(LiveSession):
    """The session of one accepted connection. Call its methods on the event loop.

    Methods raise ClientDisconnected once the client has left. One task may `receive` at a time.
    `sessions` are the names under which the sessions of this connection were admitted; `session`
    is the first.
    """

    def __init__(
        self,
        socket: WebSocket,
        client: ClientAccount,
        slow_reader_seconds: float,
        record: Record,
        slot: SessionSlot,
        *,
        resumes: bool = False,
        others: Sequence[tuple[str, SessionSlot]] = (),
    ) -> None:
        """A `send` may take `slow_reader_seconds`; nothing is queued beyond the socket's buffer.

        With `resumes` the session was let in because its client said that it was admitted before.
        `others` are names and slots of further sessions on this connection: see `sessions`.
        """
        super().__init__(client, record, (slot, *(other for _, other in others)))
        self._socket = socket
        self._slow_reader_seconds = slow_reader_seconds
        self.sessions = (record.name, *(name for name, _ in others))
        self.resumes = resumes
        self._timeout = ReusableTimeout()
        self._time_slice = TimeSlice()
        state = socket.scope.get("state", {})
        self._join: Callable[[int], bool] = state.get(JOIN, _not_joined)
        self._ping: Callable[[Callable[[], None]], None] = state.get(PING, super().ping)
        self._farewell = (_DONE, "")  # close code and reason of a session without error

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the URL. Raises BadRequest if there are too many to read."""
        return query_fields(self.query_string)

    @property
    def query_string(self) -> str:
        """The query of the URL as it was sent, of any length."""
        return query_string(self._socket)

    async def receive(self, seconds: float, what: str, enough: int = 0) -> tuple[str | None, bytes]:
        """Return the next message: (text, b"") or (None, binary).

        With `enough` binary messages come joined, once they have that many bytes or a text message
        follows. Raises DeadlineExceeded if nothing came for `seconds`, naming `what`; Interrupted
        after `interrupt`.
        """
        self._join(enough)
        try:
            message = await self._timeout.wait(seconds, self._socket.receive(), what)
        except DeadlineExceeded:
            if not self._join(0):  # something came, though less than enough
                raise
            message = await self._socket.receive()
        check_connected(message)
        for slot in self.slots:
            slot.confirm()
        text = message.get("text")
        return (text, b"") if text is not None else (None, message.get("bytes") or b"")

    def ping(self, answered: Callable[[], None]) -> None:
        """Call `answered` once a pong has come; never if none comes.

        Earlier messages are delivered first, though they may be less than `receive` wants.
        """
        self._ping(answered)

    async def read_up(self) -> None:
        """After the end of the audio, ignore all messages until the client leaves.

        Then raises ClientDisconnected. After a thousand messages nothing is read any more, so that
        a client cannot send without end. Waits without a deadline: the session's end cancels it.
        """
        for _ in range(_MOST_LATE):
            message = await self._socket.receive()
            check_connected(message)
            if message.get("bytes") and self._farewell[0] == _DONE:
                self._farewell = (_DONE, "audio after the end was ignored")
            await self._time_slice.yield_if_expired()
        await asyncio.Event().wait()

    async def send(self, text: str) -> None:
        """Send a text message. Raises DeadlineExceeded if the client does not read."""
        await _send(self._socket, text, self._slow_reader_seconds)

    def interrupt(self) -> None:
        """End the `receive` in progress, if any, with Interrupted."""
        self._timeout.interrupt()

    def end_early(self, samples: int) -> None:
        """The session will end early, with close code 1012; the client may resume elsewhere.

        The audio up to session sample `samples` (16 kHz) is transcribed here.
        """
        self._farewell = (_GOING, farewell(samples))

    def release(self) -> None:
        """The session is over: nothing is received any more, and no deadline runs on."""
        self._timeout.close()

    async def close_normally(self) -> None:
        await self.close(*self._farewell)

    async def close(self, code: int, reason: str = "") -> None:
        """Close the connection. Never raises; gives up after 5 s."""
        await close_socket(self._socket, code, reason)


@dataclass(frozen=True)
class SocketProtocol:
    """`serve` runs a session until it is done; `error` returns the last message of a failed one.

    With `resumes`, clients may connect with `?resume=true`: `serve` ends those that do not resume.
    `check` raises BadRequest for a query with which a client is refused before a session begins.
    With `refuses_in_band` any refused client receives the error in a message: the handshake is
    completed first, because the protocol's SDKs do not show the response to a refused one. With
    `refuses_in_band_if_asked` so do clients that connect with `?refusal_message=true`, such as
    pages, from which browsers hide that response.
    `close_code` maps the error of a failed session. `sessions` counts the sessions that a query
    requests, for admission and limits.
    """

    name: str
    serve: Callable[[ClientSocket], Awaitable[None]]
    error: Callable[[AuricleError], str]
    subprotocols: Sequence[str] = ()
    resumes: bool = False
    check: Callable[[str], None] = lambda _query: None
    refuses_in_band: bool = False
    refuses_in_band_if_asked: bool = False
    close_code: Callable[[AuricleError], int] = lambda error: error.close_code
    sessions: Callable[[str], int] = lambda _query: 1


class SocketSessions:
    """Serves all WebSocket sessions of this frontend, of every protocol, on one event loop."""

    def __init__(
        self,
        access: Access,
        admission: SessionAdmission,
        sessions: LiveSessions,
        slow_reader_seconds: float,
    ) -> None:
        self._access = access
        self._admission = admission
        self._sessions = sessions
        self._slow_reader_seconds = slow_reader_seconds

    async def serve(self, socket: WebSocket, protocol: SocketProtocol) -> None:
        """Serve one connection until it is closed. Errors of the session are sent to the client.

        A client that cannot be admitted is refused at the handshake, with an HTTP status, or, where
        the protocol or the client wants that, in band, as if its session had failed at once.
        """
        record = Record(protocol.name, address_of(socket.client))
        in_band = protocol.refuses_in_band
        try:
            with self._sessions.recorded(record):
                if protocol.refuses_in_band_if_asked:
                    in_band = wants_refusal_message(socket)
                await self._admitted(socket, protocol, record)
        except ClientDisconnected:
            log.debug("the client of %s left at its handshake", record.name)
        except AuricleError as error:
            if in_band:
                await self._refuse(socket, protocol, error)
            else:
                await socket.send_denial_response(error_response(error))

    async def _refuse(
        self, socket: WebSocket, protocol: SocketProtocol, error: AuricleError
    ) -> None:
        try:
            await _accept(socket, protocol)
            await _send(socket, protocol.error(error), self._slow_reader_seconds)
        except (ClientDisconnected, AuricleError):
            log.debug("a refused client left before the error reached it")
        else:
            await close_socket(socket, protocol.close_code(error), close_reason(error))

    async def _admitted(self, socket: WebSocket, protocol: SocketProtocol, record: Record) -> None:
        client = self._access.client(socket.headers, "live")
        fairness_key = client.fairness_key(host_of(socket.client))
        resumes = protocol.resumes and is_resuming(socket)
        query = query_string(socket)
        protocol.check(query)
        more = [f"{record.name}.{n}" for n in range(1, protocol.sessions(query))]
        admitted = self._sessions.admitted(record, client, fairness_key, more, resumes=resumes)
        async with admitted as (slot, *slots):
            connection = ClientSocket(
                *(socket, client, self._slow_reader_seconds, record, slot),
                resumes=resumes,
                others=list(zip(more, slots, strict=True)),
            )
            try:
                await _accept(socket, protocol)
                await self._run(protocol, connection)
            finally:
                connection.release()

    async def _run(self, protocol: SocketProtocol, connection: ClientSocket) -> None:
        record, client = connection.record, connection.client
        try:
            with self._admission.interrupting(connection.interrupt):
                running = self._sessions.running(
                    record, client, connection.slots, resumes=connection.resumes
                )
                async with running:
                    await protocol.serve(connection)
            await connection.close_normally()
        except ClientDisconnected:
            log.debug("the client of %s has left", record.name)
        except AuricleError as error:
            await _fail(connection, protocol, error)


async def _accept(socket: WebSocket, protocol: SocketProtocol) -> None:
    try:
        await socket.accept(accepted_subprotocol(socket.headers, protocol.subprotocols))
    except (OSError, WebSocketDisconnect, RuntimeError):  # an OSError is uvicorn's
        raise ClientDisconnected from None


async def _send(socket: WebSocket, text: str, slow_reader_seconds: float) -> None:
    """Send a text message. Raises ClientDisconnected, or DeadlineExceeded for a slow reader."""
    try:
        await with_timeout(slow_reader_seconds, socket.send_text(text), "reading sent data")
    except (WebSocketDisconnect, RuntimeError):
        raise ClientDisconnected from None


async def _fail(connection: ClientSocket, protocol: SocketProtocol, error: AuricleError) -> None:
    try:
        await connection.send(protocol.error(error))
    except (ClientDisconnected, AuricleError):
        log.debug("the client left before the error reached it")
    await connection.close(protocol.close_code(error), error.for_client)
