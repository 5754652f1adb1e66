"""uvicorn's WebSocket protocol, with exact message sizes, fair turns and complete closes."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from auricle.errors import BadRequest
from auricle.frontend.doors.binary_frames import take_frames
from auricle.frontend.doors.bounded_messages import BoundedMessages
from auricle.frontend.doors.client_gone import FAILED
from auricle.frontend.doors.connections import CountedProtocol
from auricle.frontend.doors.http_protocol import DoorConfig
from auricle.frontend.doors.plain_answers import plain_answer
from auricle.frontend.listening.holding import HoldTimer
from auricle.tasks import LoopTurn

_PIECE_BYTES = 512  # parsed at a time: at most 85 frames, about half a millisecond
# A connection that failed is closed once nothing was received for so long, at the latest after
# so long in all. Closing at once would reset it, and the client might lose the close frame.
_QUIET_SECONDS, _LINGER_SECONDS = 0.5, 10.0
# Of a session that ends itself: more than its close frame may take to be sent.
_FAREWELL_SECONDS = 10.0
# Key in the scope's state of `WebSocketProtocol.join`.
JOIN = "auricle.join"


class WebSocketProtocol(CountedProtocol, WebSocketsSansIOProtocol):
    """One WebSocket connection. Its configuration must be a `DoorConfig`.

    Frames are parsed when the application has taken the messages before them, so that at most
    a few hundred messages are objects, however small a client makes them.
    """

    def __init__(self, config: uvicorn.Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        assert isinstance(config, DoorConfig)
        # The session ends itself after `reader_seconds` and may say why for as long again.
        reader_seconds = 2 * config.connections.limits.reader_seconds + _FAREWELL_SECONDS
        self.count_among(config.connections, reader_seconds)
        self._messages = self.conn = BoundedMessages(
            config.ws_max_size, extensions=self.conn.available_extensions, logger=self.logger
        )
        self._unread = bytearray()
        self._turn = LoopTurn()
        self._next: asyncio.Handle | None = None  # what parses on
        self._joined = bytearray()  # of a message in fragments
        self._binary = bytearray()  # of binary messages that are delivered together
        self._enough = 0  # bytes of them; 0 if each is delivered by itself
        self._held = HoldTimer(self._deliver)  # delivers fewer if nothing more comes
        self._partial = False  # what is unread is the begin of a plain frame
        self._lingers_until: float | None = None
        self._heard_at = 0.0

    # ── the connection ──────────────────────────────────────────────────────

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._held.close()
        if self._next is not None:
            self._next.cancel()
        self._unread.clear()
        super().connection_lost(exc)

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

    def handle_connect(self, event: Request) -> None:
        """A handshake was received."""
        super().handle_connect(event)
        if not self.handshake_complete:
            self.scope["state"][JOIN] = self.join

    def join(self, enough: int) -> bool:
        """Deliver binary messages joined from now on, as soon as they have `enough` bytes.

        Those before a text message or the close are delivered anyway, and those that nothing
        follows soon. With 0 each is delivered by itself again. Returns whether something is
        delivered now.
        """
        self._enough = enough
        if len(self._binary) >= enough:
            self._deliver()
        return not self.queue.empty()

    def _deliver(self) -> None:
        if self._binary:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": bytes(self._binary)})
            self._binary.clear()
            self._held.released()

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
        if not self._parse_plain():
            self._parse_others()
        self._pace()

    def _parse_plain(self) -> bool:
        """Parse audio as live clients send it; return whether that is all for this turn."""
        self._partial = False
        if not self._enough or not self._may_parse or not self._messages.between_messages:
            return False
        used, self._partial = take_frames(
            self._unread, self._binary, enough=self._enough, largest=self.config.ws_max_size
        )
        del self._unread[:used]
        if len(self._binary) >= self._enough:
            self._deliver()
        elif self._binary:
            self._held.held()
        if used and self._unread and not self._partial and self._may_parse:
            self._next = self.loop.call_soon(self._parse)
        return used > 0 or self._partial

    def _parse_others(self) -> None:
        """Parse frames of any kind, a turn at a time."""
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

    def _pace(self) -> None:
        """Pause reading while something is left that was received before.

        Audio that is delivered joined is taken at once as a rule, so reading goes on meanwhile.
        """
        taken = self.queue.empty() or self.close_sent or not self.handshake_complete
        left = bool(self._unread) and not self._partial
        pause = left or not (taken or self._enough)
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
            if not self._enough:
                self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
                return
            self._binary += data
            if len(self._binary) >= self._enough:
                self._deliver()
            elif self._binary:
                self._held.held()
            return
        self._deliver()
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

    def handle_close(self, event: Frame) -> None:
        """The client closes, after what it has sent before."""
        if not self.close_sent:
            self._deliver()
        super().handle_close(event)

    def handle_parser_exception(self) -> None:
        """The client broke the protocol: send the close frame, and close when it has read it."""
        if self.close_sent or self._messages.close_sent is None:
            self.transport.close()
            return
        self._deliver()
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
