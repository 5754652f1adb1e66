"""The frames of AudioSocket: a byte that says what it is, two of length, and a payload. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from auricle.errors import ProtocolError

_HEADER_BYTES = 3


class Kind(IntEnum):
    """What a frame is, beside audio."""

    HANGUP = 0x00
    UUID = 0x01
    DTMF = 0x03
    ERROR = 0xFF


# 16-bit mono PCM, little-endian; Hz by kind. Older versions of Asterisk send the first one only.
AUDIO_RATES = {
    0x10: 8_000,
    0x11: 12_000,
    0x12: 16_000,
    0x13: 24_000,
    0x14: 32_000,
    0x15: 44_100,
    0x16: 48_000,
    0x17: 96_000,
    0x18: 192_000,
}
_KINDS = frozenset(AUDIO_RATES) | frozenset(Kind)
# All that Asterisk can be told; its dialplan goes on after it.
HANG_UP = bytes(_HEADER_BYTES)


@dataclass(frozen=True)
class Frame:
    """One frame as it was received."""

    kind: int
    payload: bytes


class FrameParser:
    """Cuts what Asterisk sends into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        self._bytes += data

    def next(self) -> Frame | None:
        """Return the next frame, None if more must be received for it.

        Raises ProtocolError for a kind that there is not; what follows cannot be read then.
        """
        if len(self._bytes) < _HEADER_BYTES:
            return None
        kind = self._bytes[0]
        if kind not in _KINDS:
            raise ProtocolError(f"not a frame of AudioSocket: it has no kind 0x{kind:02x}")
        end = _HEADER_BYTES + int.from_bytes(self._bytes[1:_HEADER_BYTES], "big")
        if len(self._bytes) < end:
            return None
        payload = bytes(self._bytes[_HEADER_BYTES:end])
        del self._bytes[:end]
        return Frame(kind, payload)
