"""A client's own features to what the processor gets. It marks speech itself, too."""

from __future__ import annotations

from auricle.audio.features import FeaturePacket, check_features, unpack
from auricle.audio.mel import HOP
from auricle.errors import ProtocolError
from auricle.frontend.endpointing import FeaturePiece, GateEvent


class FeatureIngest:
    """Instead of `Ingest`; `total_samples` is where the last segment ended so far."""

    def __init__(self, dtype: str, max_segment_seconds: float) -> None:
        """`dtype` is one of `audio.features.DTYPES`."""
        self._dtype = dtype
        self._max_segment_seconds = max_segment_seconds
        self._open: FeaturePacket | None = None  # the open segment's last packet
        self.total_samples = 0

    async def push(self, data: bytes) -> list[GateEvent]:
        """One packet. Raises ProtocolError on one that does not follow the one before."""
        packet = unpack(data, self._dtype)
        check_features(packet, self._max_segment_seconds)
        self._check_order(packet)
        start = packet.segment_start if self._open is None else self.total_samples
        self._open = None if packet.last else packet
        self.total_samples = packet.end
        return [FeaturePiece(start, packet)]

    @property
    def resting_at(self) -> int | None:
        """Session sample from which on a new session can go on; None within a segment."""
        return self.total_samples if self._open is None else None

    async def end(self) -> list[GateEvent]:
        """No more packets. Raises ProtocolError within a segment."""
        if self._open is not None:
            raise ProtocolError("the last segment of features has no last packet (flag 1)")
        return []

    def _check_order(self, packet: FeaturePacket) -> None:
        before = self._open
        if before is None:
            if packet.segment_start < self.total_samples:
                raise ProtocolError(
                    f"a segment begins at sample {packet.segment_start}, before the end of "
                    f"the one before at {self.total_samples}"
                )
            if packet.first_frame:
                raise ProtocolError(f"a segment begins with frame {packet.first_frame}, not 0")
            return
        if packet.segment_start != before.segment_start:
            raise ProtocolError(
                f"a segment begins at sample {packet.segment_start}, but the one at "
                f"{before.segment_start} has no last packet (flag 1)"
            )
        if packet.samples < before.samples or packet.first_frame > before.samples // HOP:
            raise ProtocolError(
                f"a packet up to sample {packet.samples} from frame {packet.first_frame} on "
                f"does not follow one up to sample {before.samples}"
            )
