"""websockets' parser of frames and messages, with exact bounds of messages. No I/O."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.server import ServerProtocol

_NO_HANDSHAKE = (
    "this is no valid WebSocket handshake: it needs the headers Upgrade: websocket, "
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
