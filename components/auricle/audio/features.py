"""Log-mel features that a client computed itself, as packets.

A packet holds the frames of a segment that are new or have changed, as if the segment
ended after `samples`: the last one or two frames reach beyond what was heard and change
once more when the audio goes on (see mel.py), so a following packet repeats them.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from auricle.audio.mel import BINS, HOP, SAMPLE_RATE, Frames
from auricle.errors import ProtocolError

# Session sample the segment begins at, first frame, samples of the segment, flags; then
# the frames, (n, 128) little-endian.
_HEADER = struct.Struct("<QIII")
_LAST = 1
DTYPES = ("float32", "float16")


class FeaturePacket(msgspec.Struct, frozen=True):
    """`log_mel`: float32 (samples // 160 − first_frame, 128), unclamped log10 mel energies."""

    segment_start: int
    first_frame: int
    samples: int
    last: bool
    log_mel: bytes

    @property
    def frames(self) -> Frames:
        """As an array."""
        return np.frombuffer(self.log_mel, "<f4").reshape(-1, BINS)

    @property
    def end(self) -> int:
        """Session sample after the last one."""
        return self.segment_start + self.samples


def pack(
    segment_start: int, first_frame: int, samples: int, frames: Frames, *, last: bool, dtype: str
) -> bytes:
    """What a client sends."""
    header = _HEADER.pack(segment_start, first_frame, samples, _LAST if last else 0)
    return header + frames.astype(np.dtype(dtype).newbyteorder("<")).tobytes()


def unpack(data: bytes, dtype: str) -> FeaturePacket:
    """Raises ProtocolError saying what is wrong; `dtype` is one of `DTYPES`."""
    if len(data) < _HEADER.size:
        raise ProtocolError(f"a packet of features has a header of {_HEADER.size} bytes")
    segment_start, first_frame, samples, flags = _HEADER.unpack_from(data)
    if flags & ~_LAST:
        raise ProtocolError(f"flags {flags} of a packet of features are unknown; 1 is the last")
    values = np.frombuffer(data[_HEADER.size :], np.dtype(np.uint8))
    item = np.dtype(dtype).itemsize
    wanted = (samples // HOP - first_frame) * BINS * item
    if first_frame > samples // HOP or len(values) != wanted:
        raise ProtocolError(
            f"a packet up to sample {samples} from frame {first_frame} on carries "
            f"{max(wanted, 0)} bytes of {dtype} frames, not {len(values)}"
        )
    frames = values.view(np.dtype(dtype).newbyteorder("<")).astype(np.float32)
    if not np.isfinite(frames).all():
        raise ProtocolError("a packet of features contains values that are not finite")
    return FeaturePacket(segment_start, first_frame, samples, bool(flags), frames.tobytes())


def check_features(packet: FeaturePacket, max_segment_seconds: float) -> None:
    """Raise ProtocolError for a segment that is too long: only the client can cut it."""
    limit = int(max_segment_seconds * SAMPLE_RATE)
    if packet.samples > limit or (packet.samples == limit and not packet.last):
        raise ProtocolError(
            f"a segment of features may have {max_segment_seconds:g} s; end it before, at a "
            "pause if there is one"
        )
