"""Turns features that the client computed into pieces for the processor.

The client also does its own voice activity detection and endpointing.
"""

from __future__ import annotations

from collections import deque

from auricle.audio.constants import HOP
from auricle.audio.features import FeaturePacket, check_features, final_frames, unpack
from auricle.errors import ProtocolError
from auricle.frontend.listening.pieces import FeaturePiece, GateEvent
from auricle.frontend.listening.point import BEGIN, ListeningPoint


class FeatureIngest:
    """Takes the place of `Ingest` for one session that sends features.

    `total_samples` is the session sample at which the last packet ended. Calls must be made
    on the event loop and must not overlap.
    """

    def __init__(
        self, dtype: str, max_segment_seconds: float, start: ListeningPoint = BEGIN
    ) -> None:
        """`dtype` is that of the features, one of `audio.features.DTYPES`.

        The next segment begins at `start` or later.
        """
        self._dtype = dtype
        self._max_segment_seconds = max_segment_seconds
        self._taken: deque[bytes] = deque()
        self._open: FeaturePacket | None = None  # the latest packet of the open segment
        self.total_samples = start.sample
        # Samples that features came for. The silence in between is the client's word only.
        self.heard_samples = start.heard

    def take(self, data: bytes) -> None:
        """Take one packet, to be processed by `process`."""
        self._taken.append(data)

    def expect(self, _speech: int | None) -> int:
        """Return 0: packets are not joined."""
        return 0

    @property
    def ready(self) -> bool:
        """Whether a packet was taken and not processed."""
        return bool(self._taken)

    @property
    def holds(self) -> bool:
        """As `ready`: no packet waits for another."""
        return self.ready

    async def process(self) -> list[GateEvent]:
        """Process the next packet. Raises ProtocolError if it is wrong, or out of order."""
        packet = unpack(self._taken.popleft(), self._dtype)
        check_features(packet, self._max_segment_seconds)
        self._check_order(packet)
        start = packet.segment_start if self._open is None else self.total_samples
        self._open = None if packet.last else packet
        self.total_samples = packet.end
        self.heard_samples += packet.end - start
        return [FeaturePiece(start, packet)]

    @property
    def resting_at(self) -> int | None:
        """The session sample from which a new session can continue; None within a segment."""
        return self.total_samples if self._open is None else None

    @property
    def point(self) -> ListeningPoint | None:
        """Where another frontend can go on listening; None within a segment."""
        if self._open is not None:
            return None
        return ListeningPoint(self.total_samples, self.total_samples, self.heard_samples)

    async def end(self) -> list[GateEvent]:
        """End the input. Raises ProtocolError within a segment."""
        if self._open is not None:
            raise ProtocolError("the last segment of features has no last packet (flag 1)")
        return []

    def _check_order(self, packet: FeaturePacket) -> None:
        if self._open is None:
            self._check_first(packet)
        else:
            _check_following(self._open, packet)

    def _check_first(self, packet: FeaturePacket) -> None:
        if packet.segment_start < self.total_samples:
            raise ProtocolError(
                f"a segment begins at sample {packet.segment_start}, before the end of "
                f"the one before at {self.total_samples}"
            )
        if packet.first_frame:
            raise ProtocolError(f"a segment begins with frame {packet.first_frame}, not 0")
        if packet.samples < HOP:
            raise ProtocolError(
                f"a segment's first packet has {packet.samples} samples, at least {HOP}"
            )


def _check_following(before: FeaturePacket, packet: FeaturePacket) -> None:
    """Raise ProtocolError unless `packet` follows `before` within its segment.

    It brings something new: packets that cost work and bring no audio would cost without end.
    """
    if packet.segment_start != before.segment_start:
        raise ProtocolError(
            f"a segment begins at sample {packet.segment_start}, but the one at "
            f"{before.segment_start} has no last packet (flag 1)"
        )
    known = before.samples // HOP
    if packet.samples < before.samples or packet.first_frame > known:
        raise ProtocolError(
            f"a packet up to sample {packet.samples} from frame {packet.first_frame} on "
            f"does not follow one up to sample {before.samples}"
        )
    final = min(final_frames(before.samples), known)
    if packet.first_frame < final:
        raise ProtocolError(
            f"a packet repeats frame {packet.first_frame}, but the first {final} were final"
        )
    if packet.samples < before.samples + HOP and not packet.last:
        raise ProtocolError(
            f"a packet up to sample {packet.samples} brings less than {HOP} new samples after "
            f"one up to {before.samples}"
        )
