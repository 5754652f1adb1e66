"""Reads the plainest WebSocket frames: a client's audio. No I/O.

A live client sends fifty small binary messages a second. A complete parser takes several times as
long for one as for what is done with its audio. So frames of that kind are read here, and joined;
all others are left to the complete parser, errors included.
"""

from __future__ import annotations

from typing import NamedTuple

try:
    from websockets.speedups import apply_mask
except ImportError:  # its C extension is optional
    from websockets.utils import apply_mask

# A whole binary message, without an extension; the client's bit of a mask.
_WHOLE_BINARY, _MASKED = 0x82, 0x80
_TWO_BYTES, _EIGHT_BYTES = 126, 127  # lengths that follow in so many bytes
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

    It ends at 0 if the frame is not plain, and beyond the data while that cannot be said.
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
    return (payload, payload + size) if 0 <= size <= largest else (0, 0)
