"""uvicorn's HTTP protocol, with deadlines, bounds on requests, and fair scheduling."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from auricle.core.errors import (
    AuricleError,
    BadRequest,
    HeadTooLarge,
    Overloaded,
    RateLimited,
    TooSlow,
)
from auricle.frontend.transport.connections import (
    Connections,
    CountedProtocol,
    Watched,
    serving,
)
from auricle.frontend.transport.request_errors import error_response

TRANSPORT = "http"

# Answers written to a connection that no application serves: bad requests and refusals.


def plain_answer(error: AuricleError) -> bytes:
    """Return a complete HTTP/1.1 response for `error`, which closes the connection."""
    response = error_response(error)
    status = HTTPStatus(response.status_code)
    head = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    head += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*head, b"connection: close", b"", bytes(response.body)])


_HEAD_BYTES = 64 * 1024
# Of a chunked body's lines and trailers, since the last bytes of the body.
_FRAMING_BYTES = 8 * 1024
# After this many parser events, of a few microseconds each, other connections are served.
_PIECE_BYTES, _TURN_EVENTS = 1024, 128
# How long the rest of a request is read and discarded once it is answered. Closing at once
# would reset the connection, and the client might lose the answer.
_REST_SECONDS, _TOLD_SECONDS = 5.0, 1.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, with the connections that its protocols are counted among."""

    def __init__(self, app: Any, *, connections: Connections, **options: Any) -> None:
        super().__init__(app, **options)
        self.connections = connections


class _Flow(FlowControl):
    """uvicorn's flow control; reading is also paused while `held`."""

    held = False

    def pause_reading(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self._apply()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._apply()

    def hold(self, *, held: bool) -> None:
        if held is not self.held:
            self.held = held
            self._apply()

    def _apply(self) -> None:
        if self._transport.is_closing():
            return
        if self.read_paused or self.held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


@dataclass(frozen=True)
class _AnswerTransport:
    """The transport of one answer."""

    write: Callable[[bytes], None]
    is_closing: Callable[[], bool]
    close: Callable[[], None]


class _Wait(Enum):
    """The part of a request that the client must send next."""

    HEAD = "the request's line and headers"
    REST = "the rest of a request that was answered"
    NEXT = "the next request"


class HttpProtocol(CountedProtocol, HttpToolsProtocol):
    """One HTTP connection. Its configuration must be a `ServerConfig`."""

    flow: _Flow

    def __init__(self, config: uvicorn.Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        assert isinstance(config, ServerConfig)
        self._limits = config.connections.limits
        self.count_among(config.connections, self._limits.reader_seconds)
        self._refusal: AuricleError | None = None
        self._ended = False  # everything the client sends is ignored from now on
        self._upgraded = False
        self._upgrade_waits = False  # for the answer to the request before it
        self._half_closed = False  # the client sends nothing more and waits for its answer
        self._closes = False  # once the rest of the request has been received
        self._in_head, self._in_body = True, False
        self._head_bytes = 0
        self._framing_bytes = 0
        self._events = 0
        self._unfed = bytearray()
        self._turn: asyncio.Handle | None = None
        self._served: Any = None  # the request in progress
        self._waits: tuple[_Wait, float] | None = None

    # ── the connection ──────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        try:
            self._connections.enter(self, TRANSPORT)
        except (Overloaded, RateLimited) as error:
            if not self._connections.refuse(self):
                self._connections.log(self, error)
                transport.abort()
            self._refusal = error  # sent once the request arrives
            self._waits = (_Wait.HEAD, self._connections.clock() + _TOLD_SECONDS)
        else:
            self._wait_for(_Wait.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._unfed.clear()
        if self._served is not None:  # uvicorn marks the newest request only
            self._served.disconnected = True
            self._served.message_event.set()
        super().connection_lost(exc)

    def check_deadlines(self, now: float) -> None:
        super().check_deadlines(now)
        if self._half_closed and not self.transport.is_closing() and self._was_reset():
            self.transport.abort()
        if self._waits is not None and now >= self._waits[1] and not self.transport.is_closing():
            if self._waits[0] is _Wait.HEAD and self._head_bytes and not self._ended:
                seconds = self._limits.head_seconds
                self._end(TooSlow(f"{_Wait.HEAD.value} took longer than {seconds:g} s"))
            else:
                self.transport.close()

    def _end(self, error: AuricleError) -> None:
        """Send the error, and close once the client has had time to read it."""
        self._connections.log(self, error)
        self.transport.write(plain_answer(error))
        self._ended = True
        self._unfed.clear()
        self.flow.hold(held=False)
        self.flow.resume_reading()
        self._waits = (_Wait.REST, self._connections.clock() + _TOLD_SECONDS)

    def refused(self, error: AuricleError) -> None:
        """Read nothing more, and end the connection, with the error if possible."""
        if self._ended or self.transport.is_closing():
            return
        if self._is_answering:
            if self.cycle.response_started or self.pipeline:  # the error would be within an answer
                self._connections.log(self, error)
                self.transport.close()
                return
            self.cycle.disconnected = True  # for the application, which answers no more
            self.cycle.message_event.set()
        self._end(error)

    # ── a client that sends nothing more ────────────────────────────────────

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's returns nothing
        """Keep the connection open for the answer if a whole request was received.

        TLS has no half-closed connections.
        """
        incomplete = bool(self._head_bytes) or self._in_body
        self._half_closed = self._is_answering and not incomplete and self.scheme == "http"
        if self._half_closed and self.scope["http_version"] == "1.1":
            self._probe()
        return self._half_closed

    def _probe(self) -> None:
        """Send bytes, which a client that has left answers with a reset.

        A client that closed its socket looks like one that only shut down its writing side. Any
        HTTP/1.1 client takes an interim response, as long as the answer has not begun.
        """
        if not self.cycle.response_started and not self.pipeline:
            self.transport.write(_CONTINUE)

    def _was_reset(self) -> bool:
        """Whether the client has reset the connection, which nothing reads any more."""
        connection: socket.socket = self.transport.get_extra_info("socket")
        return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    # ── reading ─────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Parse received data in bounded slices."""
        if self._ended or self.transport.is_closing():
            return
        if self._refusal is not None:
            self._end(self._refusal)
            return
        self._unfed += data
        if self._turn is None:
            self._feed()

    def _feed(self) -> None:
        self._turn = None
        self._events = 0
        if self._upgrade_waits and not self._is_answering:
            self.handle_websocket_upgrade()
            return
        while self._unfed and not (self.pipeline or self._upgrade_waits or self._ended):
            wait = self._connections.must_wait(self) if self._is_between_requests else 0.0
            if wait or self._events >= _TURN_EVENTS:
                self.flow.hold(held=True)
                self._turn = self.loop.call_later(wait, self._feed)
                return
            piece = bytes(self._unfed[:_PIECE_BYTES])
            del self._unfed[:_PIECE_BYTES]
            self._events += 1
            self._parse(piece)
            if self._upgraded or self.transport.is_closing():
                return
        # Requests behind the one in progress are read when it is answered.
        self.flow.hold(held=bool(self._unfed))
        if not self._ended:
            self._count()

    def _count(self) -> None:
        body = 0 if self.cycle is None else len(self.cycle.body)
        try:
            self._connections.holds(self, len(self._unfed) + self._head_bytes + body)
        except (Overloaded, RateLimited) as error:
            self.refused(error)

    def _parse(self, piece: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(piece)
        elif self._in_body:
            self._framing_bytes += len(piece)  # until `on_body`
        self._unset_keepalive_if_required()
        try:
            self._feed_parser(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # uvicorn's own method logs a warning for each.
            self.refused(BadRequest("malformed HTTP request"))
        if self._upgraded or self._ended:
            return
        if self._in_head and self._head_bytes > _HEAD_BYTES:
            if self._is_answering:
                self.transport.close()
            else:
                error = f"the request's line and headers have more than {_HEAD_BYTES} bytes"
                self._end(HeadTooLarge(error))
        elif self._in_body and self._framing_bytes > _FRAMING_BYTES:
            error = f"the lines of a chunk or the trailers have more than {_FRAMING_BYTES} bytes"
            self.refused(HeadTooLarge(error))

    # ── upgrades ────────────────────────────────────────────────────────────

    def _feed_parser(self, piece: bytes) -> None:
        """Parse a piece. Offers of protocols other than WebSocket, as `h2c`, are ignored.

        The parser stops behind the head of a request with an offer, because it takes all that
        follows for the other protocol. So another parser gets that head without the offer, and
        then the rest. Raises HttpParserError.
        """
        while piece:
            try:
                self.parser.feed_data(piece)
                return
            except httptools.HttpParserUpgrade as offer:
                if self._should_upgrade():
                    self._in_body = False
                    self._upgrade_waits = self._is_answering
                    if not self._upgrade_waits:
                        self.handle_websocket_upgrade()
                    return
                (end_of_head,) = offer.args
            head = self._head_without_offer()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self.parser.feed_data(head)
            piece = piece[end_of_head:]

    def _head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def _should_upgrade(self) -> bool:
        """Whether the request is a WebSocket handshake, whatever else its Connection headers say.

        An offer with a request of another method is ignored.
        """
        offered = (b"upgrade", b"websocket") in ((n, v.lower()) for n, v in self.headers)
        return offered and self.parser.get_method() == b"GET" and self._should_upgrade_to_ws()

    @property
    def _ignores_offer(self) -> bool:
        """Whether the request will be parsed again, without its offer."""
        return self.parser.should_upgrade() and not self._should_upgrade()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over."""
        self._upgraded = True
        self._unfed.clear()  # no client may send before the handshake is answered
        self.flow.hold(held=False)
        super().handle_websocket_upgrade()
        self._connections.replace(self, cast(Watched, self.transport.get_protocol()))

    # ── events of the parser ────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, max(self._head_bytes, 1)
        if self._waits is None or self._waits[0] is not _Wait.HEAD:
            self._rest()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers, which follow a chunked body, are dropped."""
        self._events += 1
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request's headers are complete; the application has it from here."""
        if self.parser.get_method() == b"CONNECT":
            raise httptools.HttpParserError("CONNECT makes no sense here")
        if self._ignores_offer:
            return
        self._in_head, self._in_body = False, True
        self._head_bytes = self._framing_bytes = 0
        self._connections.requested(self)
        super().on_headers_complete()
        self._rest()

    def on_body(self, body: bytes) -> None:
        self._events += 1
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():  # `_feed_parser` decides about the offer
            return
        self._in_body = False
        super().on_message_complete()
        if self._closes:
            self.transport.close()
        self._rest()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._served = cycle
        whole = self.transport
        cycle.transport = _AnswerTransport(whole.write, whole.is_closing, self._close)
        with serving(self._connections, self):
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """A request is answered; the next one may be of another client."""
        self._connections.shown_key(self, shown=False)
        super().on_response_complete()
        if self._half_closed and not self._is_answering and not self._unfed:
            self.transport.close()
        # `check_deadlines` does it. A timer would also keep the request's context.
        self._unset_keepalive_if_required()
        self._rest()
        if (self._unfed or self._upgrade_waits) and self._turn is None:
            self._turn = self.loop.call_soon(self._feed)

    def _close(self) -> None:
        """Close the connection, but read the rest of a request that was answered first."""
        if self._in_body and self.cycle.response_complete:
            self._closes = True
        else:
            self.transport.close()

    # ── deadlines ───────────────────────────────────────────────────────────

    @property
    def _is_between_requests(self) -> bool:
        return not self._in_body and not self._head_bytes

    @property
    def _is_answering(self) -> bool:
        waiting = self.cycle is not None and not self.cycle.response_complete
        return waiting or bool(self.pipeline)

    def _rest(self) -> None:
        """Set the deadline for the client's next data."""
        if self._ended or self._upgrade_waits:
            return
        if self._is_answering:
            self._waits = None
        elif self._in_head:
            self._wait_for(_Wait.HEAD)
        elif self._in_body:
            self._wait_for(_Wait.REST)
        else:
            if self.cycle is not None:  # an answered request is as large as the connection itself
                self._served = self.cycle = self.scope = None  # type: ignore[assignment]
            self._wait_for(_Wait.NEXT)

    def _wait_for(self, what: _Wait) -> None:
        seconds = {
            _Wait.HEAD: self._limits.head_seconds,
            _Wait.REST: _REST_SECONDS,
            _Wait.NEXT: self._limits.keep_alive_seconds,
        }[what]
        self._waits = (what, self._connections.clock() + seconds)
