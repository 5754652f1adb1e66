"""Packets of log-mel features that a client computed.

A packet holds the new or changed frames of a segment, computed as if the
segment ended after `samples`. The last one or two frames reach beyond the audio received so
far and change when more arrives (see mel.py), so the next packet repeats them.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from auricle.audio.constants import BINS, FFT, HOP, SAMPLE_RATE, Frames
from auricle.core.errors import ProtocolError

# Segment start (session sample), first frame, samples in the segment, flags. The frames
# follow as an (n, 128) little-endian array.
_HEADER = struct.Struct("<QIII")
_LAST = 1
# Values of log10 energies floored at 1e-10, as docs/log_mel.md defines them; full-scale samples
# give at most about 5. Larger values are not energies, and would corrupt the segment's maximum.
LEAST_VALUE, MOST_VALUE = -10.01, 10.0
# The client sets the session's time, so it is bounded.
MAX_SESSION_SECONDS = 24 * 3600
DTYPES = ("float32", "float16")


class FeaturePacket(msgspec.Struct, frozen=True):
    """Frames of one segment.

    `segment_start` is a session sample; `samples` counts the segment's samples so far.
    `log_mel` holds unclamped log10 mel energies, little-endian float32 of shape
    (samples // 160 − first_frame, 128).
    """

    segment_start: int
    first_frame: int
    samples: int
    last: bool
    log_mel: bytes

    @property
    def frames(self) -> Frames:
        """`log_mel` as a read-only array of shape (frames, 128)."""
        return np.frombuffer(self.log_mel, "<f4").reshape(-1, BINS)

    @property
    def end(self) -> int:
        """The session sample that follows the packet's last one."""
        return self.segment_start + self.samples


def pack(
    segment_start: int, first_frame: int, samples: int, frames: Frames, *, last: bool, dtype: str
) -> bytes:
    """Encode a packet as a client does; `dtype` is one of `DTYPES`."""
    header = _HEADER.pack(segment_start, first_frame, samples, _LAST if last else 0)
    return header + frames.astype(np.dtype(dtype).newbyteorder("<")).tobytes()


def unpack(data: bytes, dtype: str) -> FeaturePacket:
    """Decode a packet whose frames have `dtype`, one of `DTYPES`.

    Raises ProtocolError if the header, the length or a value is invalid.
    """
    if len(data) < _HEADER.size:
        raise ProtocolError(f"a packet of features has a header of {_HEADER.size} bytes")
    segment_start, first_frame, samples, flags = _HEADER.unpack_from(data)
    if segment_start + samples > MAX_SESSION_SECONDS * SAMPLE_RATE:
        raise ProtocolError(
            f"a segment that begins at sample {segment_start} ends after "
            f"{MAX_SESSION_SECONDS // 3600} hours, the longest session of features"
        )
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
    if frames.size and not LEAST_VALUE <= frames.min() <= frames.max() <= MOST_VALUE:
        raise ProtocolError(
            f"a packet of features contains values outside {LEAST_VALUE:g} to {MOST_VALUE:g}: "
            "they are log10 of energies of at least 1e-10, see docs/log_mel.md"
        )
    return FeaturePacket(segment_start, first_frame, samples, bool(flags), frames.tobytes())


def final_frames(samples: int) -> int:
    """Return the number of final frames of a segment with `samples` samples."""
    return max(0, (samples - FFT // 2) // HOP + 1)


def check_features(packet: FeaturePacket, max_segment_seconds: float) -> None:
    """Raise ProtocolError if the segment is too long: only the client can cut its features."""
    limit = int(max_segment_seconds * SAMPLE_RATE)
    if packet.samples > limit or (packet.samples == limit and not packet.last):
        raise ProtocolError(
            f"a segment of features may have {max_segment_seconds:g} s: end it earlier, at a "
            "pause if possible"
        )
