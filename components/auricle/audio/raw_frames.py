"""Checks the frames of formats that have no container: MP3, AAC (ADTS) and AMR. No I/O.

Their readers look for the next frame after damage, and decoders decode almost anything. A frame
states its own length.
"""

from __future__ import annotations

from dataclasses import dataclass

# kbit/s of MPEG audio, layer III, by version 1, and versions 2 and 2.5.
_BIT_RATES = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_RATES = (44_100, 48_000, 32_000)
_TAGS = (b"ID3", b"TAG", b"APETAGEX", b"LYRICS")
RAW = frozenset({"mp3", "aac", "amr"})  # FFmpeg's names of these formats


def is_tag(packet: bytes) -> bool:
    """Return whether a packet is a tag between or after frames."""
    return packet.startswith(_TAGS)


def is_whole(container: str, frame: bytes) -> bool:
    """Return whether a packet of a `RAW` format is one frame by its own header."""
    if not any(frame):
        return False
    if container == "amr":
        return not frame[0] & 0x83  # bits that must be 0
    if container == "aac" and frame[:1] == b"\xff" and len(frame) > 5:
        return ((frame[3] & 3) << 11 | frame[4] << 3 | frame[5] >> 5) == len(frame)
    if container == "mp3" and (header := mp3_header(frame)) is not None:
        return header.size in (None, len(frame))
    return True


@dataclass(frozen=True)
class Mp3Header:
    """The header of a frame of MPEG audio, layer III.

    `is_mpeg1`: version 1, not 2 or 2.5. The frame has `samples` per channel at `hertz`, and `size`
    bytes; None if the header does not tell.
    """

    is_mpeg1: bool
    hertz: int
    samples: int
    size: int | None


def mp3_header(frame: bytes) -> Mp3Header | None:
    """Return the header that a frame begins with; None if it has none of layer III."""
    if len(frame) < 4 or frame[0] != 0xFF or frame[1] & 0xE6 != 0xE2:
        return None
    bit_rate, rate = frame[2] >> 4, frame[2] >> 2 & 3
    if rate == 3:
        return None
    is_mpeg1 = frame[1] & 0x18 == 0x18
    hertz = _RATES[rate] // (1 if is_mpeg1 else 2 if frame[1] & 0x10 else 4)
    samples, table = (1152, _BIT_RATES[0]) if is_mpeg1 else (576, _BIT_RATES[1])
    size = None
    if bit_rate not in (0, 15):
        size = samples // 8 * table[bit_rate] * 1000 // hertz + (frame[2] >> 1 & 1)
    return Mp3Header(is_mpeg1, hertz, samples, size)
