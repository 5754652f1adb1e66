"""The frames of HTTP/2, and headers of our own in them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, END_HEADERS, PADDED, PRIORITY = 0x1, 0x4, 0x8, 0x20
_PRIORITY_BYTES = 5
# The codes of RST_STREAM and GOAWAY.
NO_ERROR, CANCEL, ENHANCE_YOUR_CALM = 0x0, 0x8, 0xB
_HEAD_BYTES = 9
_STREAM_BITS = 0x7FFFFFFF
# From this length on, the length of a name or value takes more than a byte.
_SHORT = 127


class FrameKind(IntEnum):
    """The kinds of frames that are treated differently from others."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    GOAWAY = 7
    CONTINUATION = 9


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


def reset(stream: int, code: int) -> bytes:
    """Return the frame that ends a stream at once."""
    return frame(FrameKind.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(code: int, reason: bytes) -> bytes:
    """Return the frame that ends a connection."""
    return frame(FrameKind.GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big") + reason)


def header_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode headers so that they neither use nor change the table of a connection's headers."""
    return b"".join(
        b"\0" + _sized(name.encode()) + _sized(value.encode()) for name, value in headers
    )


def _sized(text: bytes) -> bytes:
    size = len(text)
    if size < _SHORT:
        return bytes((size,)) + text
    digits, size = bytearray((_SHORT,)), size - _SHORT
    while size >= 0x80:
        digits.append(0x80 | size & 0x7F)
        size >>= 7
    return bytes(digits) + bytes((size,)) + text


def header_fragment(flags: int, payload: bytes) -> bytes:
    """Return the headers in the payload of a HEADERS frame, without padding and priority."""
    start, end = 0, len(payload)
    if flags & PADDED and payload:
        start, end = 1, end - payload[0]
    if flags & PRIORITY:
        start += _PRIORITY_BYTES
    return payload[start : max(start, end)]


class FrameListener(Protocol):
    """Follows the frames of one direction. A method that raises ends the connection."""

    def begin(self, kind: int, flags: int, stream: int, size: int) -> bool:
        """A frame of `size` bytes begins; return whether to pass it on.

        `end` may return others in place of a withheld one.
        """
        ...

    def payload(self, part: memoryview) -> None:
        """The next part of the frame's bytes."""
        ...

    def end(self) -> bytes:
        """The frame is complete; return a frame that is to follow it."""
        ...


class Http2Reader:
    """Cuts the bytes of one direction into frames, and returns them as they are to be passed on."""

    def __init__(self, listener: FrameListener) -> None:
        self._listener = listener
        self._left = 0  # bytes of the frame's payload
        self._within = False  # a frame
        self._withheld = False
        self._within_headers = False  # which may have several frames

    @property
    def between_frames(self) -> bool:
        """Whether a frame of our own may follow the bytes passed on so far."""
        return not self._within and not self._within_headers

    def read(self, data: bytes, at: int, passed: list[bytes | memoryview], most: int) -> int:
        """Read up to `most` frames from `at`, and append the bytes to pass on to `passed`.

        Return where to read on: before a frame's head, which is read as a whole.
        """
        view, size, begun = memoryview(data), len(data), at
        listener = self._listener
        while most:
            if not self._within:
                if size - at < _HEAD_BYTES:
                    break
                kind, flags = data[at + 3], data[at + 4]
                left = int.from_bytes(data[at : at + 3], "big")
                stream = int.from_bytes(data[at + 5 : at + 9], "big") & _STREAM_BITS
                self._withheld = not listener.begin(kind, flags, stream, left)
                if self._withheld:
                    passed.append(view[begun:at])
                if kind in (FrameKind.HEADERS, FrameKind.CONTINUATION):
                    self._within_headers = not flags & END_HEADERS
                at += _HEAD_BYTES
                self._left, self._within = left, True
            stop = min(at + self._left, size)
            if stop > at:
                listener.payload(view[at:stop])
                self._left -= stop - at
                at = stop
            if self._withheld:
                begun = at
            if self._left:
                break
            self._within = False
            most -= 1
            if more := listener.end():
                passed += view[begun:at], more
                begun = at
        if at > begun:
            passed.append(view[begun:at])
        return at
