"""uvicorn's WebSocket protocol, with exact message sizes, fair turns and complete closes."""

from __future__ import annotations

import asyncio
import http
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.server import ServerProtocol

from auricle.errors import BadRequest
from auricle.frontend.doors.connections import ClosingWatch, Peer
from auricle.frontend.doors.http_protocol import DoorConfig
from auricle.frontend.doors.plain_answers import plain_answer
from auricle.tasks import LoopTurn

_PIECE_BYTES = 512  # parsed at a time: at most 85 frames, about half a millisecond
# A connection that failed is closed once nothing was received for so long, at the latest after
# so long in all. Closing at once would reset it, and the client might lose the close frame.
_QUIET_SECONDS, _LINGER_SECONDS = 0.5, 10.0
# Of a session that ends itself: more than its close frame may take to be sent.
_FAREWELL_SECONDS = 10.0
_NO_HANDSHAKE = (
    "this is no valid WebSocket handshake: it needs the headers Upgrade: websocket, "
    "Connection: Upgrade, Sec-WebSocket-Version: 13 and Sec-WebSocket-Key\n"
)
# Key of the disconnect message of a connection that failed: a client may send any close code.
FAILED = "auricle.failed"


class _Messages(ServerProtocol):
    """websockets' protocol, which bounds messages as the client meant them.

    websockets compares its bound with compressed frames too. Incompressible data grows when it
    is compressed, so a message within the bound was refused.
    """

    def __init__(self, max_bytes: int, **options: Any) -> None:
        # Deflate's worst case of usual parameters is an eighth more, and a few bytes a frame.
        super().__init__(max_size=max_bytes + max_bytes // 4 + 1024, **options)
        self._max_bytes = max_bytes

    def reject(self, status: http.HTTPStatus | int, text: str) -> Response:
        """Refuse a handshake; websockets' own words repeat the client's headers at any length."""
        return super().reject(status, _NO_HANDSHAKE if self.handshake_exc is not None else text)

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            before = self.current_size or 0
            if before + len(frame.data) > self._max_bytes:
                raise PayloadTooBig(len(frame.data), self._max_bytes)
        super().recv_frame(frame)

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        if code == CloseCode.MESSAGE_TOO_BIG:
            reason = f"the message is larger than the {self._max_bytes} bytes it may have"
        super().fail(code, reason)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket connection. Its configuration must be a `DoorConfig`.

    Frames are parsed when the application has taken the messages before them, so that at most
    a few hundred messages are objects, however small a client makes them.
    """

    client: Peer

    def __init__(self, config: uvicorn.Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        assert isinstance(config, DoorConfig)
        self._connections = config.connections
        # The session ends itself after `reader_seconds` and may say why for as long again.
        self._watch = ClosingWatch(2 * self._connections.limits.reader_seconds + _FAREWELL_SECONDS)
        self._messages = self.conn = _Messages(
            config.ws_max_size, extensions=self.conn.available_extensions, logger=self.logger
        )
        self._unread = bytearray()
        self._turn = LoopTurn()
        self._next: asyncio.Handle | None = None  # what parses on
        self._joined = bytearray()  # of a message in fragments
        self._lingers_until: float | None = None
        self._heard_at = 0.0

    # ── the connection ──────────────────────────────────────────────────────

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.leave(self)
        if self._next is not None:
            self._next.cancel()
        self._unread.clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read; it may do so for a while."""
        super().pause_writing()
        self._watch.stalled(self._connections.clock())

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._watch.reads()

    def look(self, now: float) -> None:
        """End the connection if a deadline is over at `now`."""
        if self._watch.is_over(now, closing=self.transport.is_closing()):
            self.transport.abort()

    async def send(self, message: Any) -> None:
        """Send an ASGI message, as uvicorn's own method does."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # uvicorn logs an error for every handshake that was denied with an HTTP status.
            self.handshake_complete = True
        if message["type"] in ("websocket.accept", "websocket.close"):
            self._read_on()

    async def receive(self) -> Any:
        """Return the next ASGI message."""
        message = await self.queue.get()
        if self.queue.empty():
            self._read_on()
        return message

    # ── what is read ────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """Parse what was received, a turn at a time."""
        if self._lingers_until is not None:
            self._heard_at = self.loop.time()
            return
        self._unread += data
        if self._next is None:
            self._parse()

    def _read_on(self) -> None:
        """Continue with what was received before, in a turn of its own, then with what comes."""
        if self._unread and self._next is None and self._may_parse:
            self._next = self.loop.call_soon(self._parse)
        self._pace()

    @property
    def _may_parse(self) -> bool:
        if self._lingers_until is not None or self.transport.is_closing():
            return False
        if self.handshake_initiated and not self.handshake_complete:
            return False  # frames before the handshake is answered
        return self.queue.empty() or self.close_sent

    def _parse(self) -> None:
        self._next = None
        self._turn.begin()
        while self._unread and self._may_parse:
            if self._turn.used_up:
                self._next = self.loop.call_soon(self._parse)
                break
            piece = bytes(self._unread[:_PIECE_BYTES])
            del self._unread[:_PIECE_BYTES]
            self._messages.receive_data(piece)
            self.handle_events()
            if self._messages.parser_exc is not None:
                self.handle_parser_exception()
            elif self._messages.handshake_exc is not None and not self.handshake_initiated:
                error = BadRequest("this is no valid WebSocket handshake")
                self._connections.log(self, error)
                self.transport.write(plain_answer(error))
                self.transport.close()
        self._pace()

    def _pace(self) -> None:
        """Pause reading while something is left that was received before."""
        taken = self.queue.empty() or self.close_sent or not self.handshake_complete
        pause = bool(self._unread) or not taken
        if pause is not self.read_paused and not self.transport.is_closing():
            self.read_paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def handle_text(self, event: Frame) -> None:
        """A text message begins."""
        self.curr_msg_data_type = "text"
        self._add(event)

    def handle_bytes(self, event: Frame) -> None:
        """A binary message begins."""
        self.curr_msg_data_type = "bytes"
        self._add(event)

    def handle_cont(self, event: Frame) -> None:
        """A message goes on. Fragments are joined at once: millions may have a byte each."""
        self._add(event)

    def _add(self, frame: Frame) -> None:
        if frame.fin and not self._joined:
            self._received(bytes(frame.data))
            return
        self._joined += frame.data
        if frame.fin:
            data = bytes(self._joined)
            self._joined.clear()
            self._received(data)

    def _received(self, data: bytes) -> None:
        if self.close_sent:
            return  # the application is past its close
        if self.curr_msg_data_type == "bytes":
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
            return
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            self._messages.fail(CloseCode.INVALID_DATA, f"{error.reason} at byte {error.start}")
            self.handle_parser_exception()
        else:
            self.queue.put_nowait({"type": "websocket.receive", "text": text})

    def handle_ping(self) -> None:
        """Answer a ping; not while the client does not read: its answers would pile up."""
        pong = b"".join(self._messages.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)

    # ── closing ─────────────────────────────────────────────────────────────

    def handle_parser_exception(self) -> None:
        """The client broke the protocol: send the close frame, and close when it has read it."""
        if self.close_sent or self._messages.close_sent is None:
            self.transport.close()
            return
        close = self._messages.close_sent
        gone: Any = {"type": "websocket.disconnect", "code": close.code, "reason": close.reason}
        self.queue.put_nowait(gone | {FAILED: True})
        self.transport.write(b"".join(self._messages.data_to_send()))
        self.close_sent = True
        self._unread.clear()
        self._heard_at = self.loop.time()
        self._lingers_until = self._heard_at + _LINGER_SECONDS
        self.close_timer = self.loop.call_later(_QUIET_SECONDS, self._closed_if_quiet)
        self._pace()

    def _closed_if_quiet(self) -> None:
        now = self.loop.time()
        quiet_at = self._heard_at + _QUIET_SECONDS
        if now >= quiet_at or now >= (self._lingers_until or 0.0):
            self.transport.close()
        else:
            self.close_timer = self.loop.call_at(quiet_at, self._closed_if_quiet)
