"""The frames of a connection between two processes of one machine. No I/O.

A frame is the length of what follows (u32), its kind (u8), the number of its call (u32), and its
content; integers are big-endian. The caller numbers its calls.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">BI")
_WHOLE_HEAD = struct.Struct(">IBI")
MOST_BYTES = 64 * 2**20  # of a frame: as much as the request plane takes
# Replies that one side may have sent and the other not have taken yet. The reader reports them
# `REPORTED` at a time.
AHEAD = 32
REPORTED = 16


class Kind(IntEnum):
    """What a frame says. Caller: CALL (content: `Begin`), TAKEN, STOP. Other side: REPLY, END."""

    CALL = 1
    TAKEN = 2  # the caller has taken `REPORTED` more replies
    STOP = 3  # the caller wants no more replies
    REPLY = 4
    END = 5  # there are no more replies


class Frame(NamedTuple):
    """One frame."""

    kind: int
    call: int
    content: bytes


class BadFrame(Exception):
    """What was received is no frame: the connection is of no more use."""


def packed(kind: Kind, call: int, *content: bytes) -> bytes:
    """Return a frame as bytes. Raises ValueError above `MOST_BYTES`."""
    length = _HEAD.size + sum(map(len, content))
    if length > MOST_BYTES:
        raise ValueError(f"a frame of {length} bytes; at most {MOST_BYTES} fit")
    return b"".join((_WHOLE_HEAD.pack(length, kind, call), *content))


def begun(content: bytes) -> tuple[str, bytes]:
    """Return the endpoint and the sealed request of a CALL, whose content is both, NUL between."""
    endpoint, _, sealed = content.partition(b"\0")
    return endpoint.decode("ascii", "replace"), sealed


class FrameReader:
    """Takes bytes as they arrive, and returns the frames that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> list[Frame]:
        """Return the frames that `received` completes. Raises BadFrame if one is too long."""
        self._buffer += received
        frames: list[Frame] = []
        at = 0
        with memoryview(self._buffer) as view:
            while len(view) - at >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(view, at)
                if not _HEAD.size <= length <= MOST_BYTES:
                    raise BadFrame(f"a frame of {length} bytes")
                end = at + _LENGTH.size + length
                if end > len(view):
                    break
                kind, call = _HEAD.unpack_from(view, at + _LENGTH.size)
                content = bytes(view[at + _WHOLE_HEAD.size : end])
                frames.append(Frame(kind, call, content))
                at = end
        del self._buffer[:at]
        return frames
