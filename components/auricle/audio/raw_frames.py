"""Checks the frames of formats that have no container: MP3, AAC (ADTS) and AMR. No I/O.

Their readers look for the next frame after damage, and decoders decode almost anything. A frame
states its own length.
"""

from __future__ import annotations

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
    if container == "mp3":
        return _mp3_frame_bytes(frame) in (None, len(frame))
    return True


def _mp3_frame_bytes(frame: bytes) -> int | None:
    """Return the length of a frame of layer III by its header; None if it does not tell."""
    if len(frame) < 4 or frame[0] != 0xFF or frame[1] & 0xE6 != 0xE2:
        return None
    newest = frame[1] & 0x18 == 0x18
    bit_rate, rate = frame[2] >> 4, frame[2] >> 2 & 3
    if bit_rate in (0, 15) or rate == 3:
        return None
    hertz = _RATES[rate] // (1 if newest else 2 if frame[1] & 0x10 else 4)
    samples, table = (1152, _BIT_RATES[0]) if newest else (576, _BIT_RATES[1])
    return samples // 8 * table[bit_rate] * 1000 // hertz + (frame[2] >> 1 & 1)
