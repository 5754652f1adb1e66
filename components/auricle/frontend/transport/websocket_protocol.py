"""uvicorn's WebSocket protocol, with exact message sizes, fair turns and complete closes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from auricle.core.aio import TimeSlice
from auricle.core.errors import AuricleError, BadRequest, Overloaded, RateLimited
from auricle.frontend.audio.holding import HoldTimer
from auricle.frontend.transport.connections import CountedProtocol, serving
from auricle.frontend.transport.disconnect import FAILED
from auricle.frontend.transport.http_protocol import ServerConfig, plain_answer

# Reads the plainest WebSocket frames: a client's audio. No I/O.
#
# A live client sends fifty small binary messages a second. A complete parser takes several times as
# long for one as processing its audio takes. So frames of that kind are read here, and joined;
# all others are left to the complete parser, errors included.

try:
    from websockets.speedups import apply_mask
except ImportError:  # its C extension is optional
    from websockets.utils import apply_mask

# A whole binary message, without an extension; the client's bit of a mask.
_WHOLE_BINARY, _MASKED = 0x82, 0x80
_TWO_BYTES, _EIGHT_BYTES = 126, 127  # lengths that follow in two or eight bytes
_MASK_BYTES = 4
# Frames that are read at a time, in less than a tenth of a millisecond.
MOST_FRAMES = 32


class Taken(NamedTuple):
    """`used` bytes were whole plain frames; with `partial` what follows may become another one."""

    used: int
    partial: bool


def take_frames(data: bytes | bytearray, into: bytearray, *, enough: int, largest: int) -> Taken:
    """Append the payloads of the plain frames at the beginning of `data` to `into`.

    Stops once `into` has `enough` bytes, after `MOST_FRAMES`, and before a frame of more than
    `largest` bytes, one that is not whole yet, or of any other kind.
    """
    at = 0
    for _ in range(MOST_FRAMES):
        if at == len(data) or len(into) >= enough:
            break
        payload, stop = _plain(data, at, largest)
        if stop > len(data):
            return Taken(at, partial=True)
        if not stop:
            break
        into += apply_mask(data[payload:stop], data[payload - _MASK_BYTES : payload])
        at = stop
    return Taken(at, partial=False)


def _plain(data: bytes | bytearray, at: int, largest: int) -> tuple[int, int]:
    """Return where the payload of the frame that begins at `at` begins and ends.

    It ends at 0 if the frame is not plain, and beyond the data while that is undecided.
    """
    beyond = len(data) + 1
    if data[at] != _WHOLE_BINARY:
        return 0, 0
    if at + 2 > len(data):
        return 0, beyond
    size, payload = data[at + 1] - _MASKED, at + 2 + _MASK_BYTES
    if size == _EIGHT_BYTES:
        return 0, 0
    if size == _TWO_BYTES:
        if at + 4 > len(data):
            return 0, beyond
        size, payload = data[at + 2] << 8 | data[at + 3], payload + 2
    return (payload, payload + size) if 0 < size <= largest else (0, 0)


# websockets' parser of frames and messages, with exact bounds of messages. No I/O.

_NO_HANDSHAKE = (
    "malformed WebSocket handshake: it needs the headers Upgrade: websocket, "
    "Connection: Upgrade, Sec-WebSocket-Version: 13 and Sec-WebSocket-Key\n"
)


class BoundedMessages(ServerProtocol):
    """websockets' protocol, which bounds messages as the client meant them.

    websockets compares its bound with compressed frames too. Incompressible data grows when it
    is compressed, so a message within the bound was refused.
    """

    def __init__(self, max_bytes: int, **options: Any) -> None:
        # Deflate's worst case of usual parameters is an eighth more, and a few bytes a frame.
        super().__init__(max_size=max_bytes + max_bytes // 4 + 1024, **options)
        self._max_bytes = max_bytes
        self._left_at_frame = 0  # bytes received after the last whole frame

    def reject(self, status: HTTPStatus | int, text: str) -> Response:
        """Refuse a handshake; websockets' own words repeat the client's headers at any length."""
        return super().reject(status, _NO_HANDSHAKE if self.handshake_exc is not None else text)

    def receive_data(self, data: bytes | bytearray) -> None:
        self._left_at_frame = -1
        super().receive_data(data)

    @property
    def between_messages(self) -> bool:
        """Whether nothing of another message was received after the last whole one."""
        return self._left_at_frame == 0 and self.current_size is None and self.state is State.OPEN

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            before = self.current_size or 0
            if before + len(frame.data) > self._max_bytes:
                raise PayloadTooBig(len(frame.data), self._max_bytes)
        super().recv_frame(frame)
        self._left_at_frame = len(self.reader.buffer)

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        if code == CloseCode.MESSAGE_TOO_BIG:
            reason = f"the message is larger than the {self._max_bytes} bytes it may have"
        super().fail(code, reason)


_PIECE_BYTES = 512  # parsed at a time: at most 85 frames, about half a millisecond
# A connection that failed is closed once nothing was received for the quiet time, at the latest
# after the linger time. Closing at once would reset it, and the client might lose the close frame.
_QUIET_SECONDS, _LINGER_SECONDS = 0.5, 10.0
# Of a session that ends itself: more than its close frame may take to be sent.
_FAREWELL_SECONDS = 10.0
# Keys in the scope's state of `WebSocketProtocol.join` and `ping`.
JOIN, PING = "auricle.join", "auricle.ping"
# Data of the pings that sessions send. The pings of uvicorn's timer have four bytes.
_PING = b"alive"


class WebSocketProtocol(CountedProtocol, WebSocketsSansIOProtocol):
    """One WebSocket connection. Its configuration must be a `ServerConfig`.

    Frames are parsed when the application has taken the messages before them, so that at most
    a few hundred messages are objects, however small a client makes them.
    """

    def __init__(self, config: uvicorn.Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        assert isinstance(config, ServerConfig)
        # The session ends itself after `reader_seconds` and may say why for as long again.
        reader_seconds = 2 * config.connections.limits.reader_seconds + _FAREWELL_SECONDS
        self.count_among(config.connections, reader_seconds)
        self._messages = self.conn = BoundedMessages(
            config.ws_max_size, extensions=self.conn.available_extensions, logger=self.logger
        )
        self._unread = bytearray()
        self._time_slice = TimeSlice()
        self._next: asyncio.Handle | None = None  # what parses on
        self._joined = bytearray()  # of a message in fragments
        self._binary = bytearray()  # of binary messages that are delivered together
        self._enough = 0  # bytes of them; 0 if each is delivered by itself
        self._held = HoldTimer(self._deliver)  # delivers fewer if no more data follows
        self._partial = False  # the unread data is the start of a plain frame
        self._pings: list[Callable[[], None]] = []  # called at the next pong
        self._lingers_until: float | None = None
        self._heard_at = 0.0

    # ── the connection ──────────────────────────────────────────────────────

    def connection_lost(self, exc: Exception | None) -> None:
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
        message = await self.queue.get()
        if self.queue.empty():
            self._read_on()
        return message

    # ── reading ─────────────────────────────────────────────────────────────

    def handle_connect(self, event: Request) -> None:
        with serving(self._connections, self):
            super().handle_connect(event)
        if not self.handshake_complete:
            self.scope["state"] |= {JOIN: self.join, PING: self.ping}

    def join(self, enough: int) -> bool:
        """Deliver binary messages joined from now on, as soon as they have `enough` bytes.

        Empty ones, which may have a meaning, are delivered by themselves.

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
        """Parse received data in bounded slices."""
        if self._lingers_until is not None:
            self._heard_at = self.loop.time()
            return
        self._unread += data
        if self._next is None:
            self._parse()
        size = len(self._unread) + len(self._joined) + len(self._messages.reader.buffer)
        try:
            self._connections.holds(self, size)
        except (Overloaded, RateLimited) as error:
            self.refused(error)

    def refused(self, error: AuricleError) -> None:
        """End the connection at once: its client was not admitted yet."""
        self._connections.log(self, error)
        self.transport.abort()

    def _read_on(self) -> None:
        """Continue with unparsed data in the next iteration of the loop, then with new data."""
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
        """Parse frames of any kind, for a time slice at a time."""
        self._time_slice.begin()
        while self._unread and self._may_parse:
            if self._time_slice.expired:
                self._next = self.loop.call_soon(self._parse)
                break
            piece = bytes(self._unread[:_PIECE_BYTES])
            del self._unread[:_PIECE_BYTES]
            self._messages.receive_data(piece)
            self.handle_events()
            if self._messages.parser_exc is not None:
                self.handle_parser_exception()
            elif self._messages.handshake_exc is not None and not self.handshake_initiated:
                error = BadRequest("malformed WebSocket handshake")
                self._connections.log(self, error)
                self.transport.write(plain_answer(error))
                self.transport.close()

    def _pace(self) -> None:
        """Pause reading while something is left that was received before.

        Audio that is delivered joined is taken at once as a rule, so reading continues meanwhile.
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
        self.curr_msg_data_type = "text"
        self._add(event)

    def handle_bytes(self, event: Frame) -> None:
        self.curr_msg_data_type = "bytes"
        self._add(event)

    def handle_cont(self, event: Frame) -> None:
        """A message continues. Fragments are joined at once: there may be millions of one byte."""
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
            if not self._enough or not data:
                self._deliver()
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

    def ping(self, answered: Callable[[], None]) -> None:
        """Call `answered` once the client's pong has come, after its earlier messages."""
        if self._messages.state is State.OPEN and not self.transport.is_closing():
            if not self._pings:
                self._messages.send_ping(_PING)
                self.transport.write(b"".join(self._messages.data_to_send()))
            self._pings.append(answered)

    def handle_pong(self, event: Frame) -> None:
        """A pong has come."""
        super().handle_pong(event)
        if bytes(event.data) == _PING and self._pings:
            self._deliver()
            answered, self._pings = self._pings, []
            for call in answered:
                call()

    # ── closing ─────────────────────────────────────────────────────────────

    def handle_close(self, event: Frame) -> None:
        """The client closes; deliver its earlier messages first."""
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
