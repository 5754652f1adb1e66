"""Converts a client's bytes into chunks of speech, and events where speech starts and stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from auricle.audio.constants import HOP, SAMPLE_RATE
from auricle.audio.features import FeaturePacket, check_features, final_frames, unpack
from auricle.audio.pcm import Int16, PcmStream, container_of
from auricle.audio.voice_activity import VAD_FRAME, VoiceState
from auricle.core.errors import ProtocolError
from auricle.frontend.audio.chunks import AudioChunk, AudioEvent, FeatureChunk
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.frontend.audio.resume_state import BEGIN, AudioCheckpoint, SavedVoiceState, Stall
from auricle.frontend.audio.voice_activity import VoiceDetector

# Packets of 20 ms would cost five times as many calls as packets of 100 ms. Bytes are therefore
# held until they fill two frames of voice activity detection.
_HELD_SECONDS = 2 * VAD_FRAME / SAMPLE_RATE
# Without voice activity detection: a client that sends single samples must not cost an object for
# each of them.
_HELD_SECONDS_OPEN = 0.01
# The most frames between two decisions of a session whose processor states how much speech it
# needs: a decision costs as much as 30 ms of voice activity detection.
_TICK_FRAMES = 5
_SHORTEST_TICK_FRAMES = 2
# Audio is processed in slices. Each takes about a millisecond of the event loop, so that others are
# served in between however large a frame is.
_SLICE_SECONDS = 1.0
_SLICE_BYTES = 1 << 15


# Returns the probability that the turn which ends with this audio is over.
TurnProbability = Callable[[Int16], Awaitable[float]]


class Ingest:
    """The audio of one session. Calls must be made on the event loop and must not overlap.

    Bytes are taken with `take` and processed slice by slice: call `process` while there is a
    slice that is `ready`, and let other sessions run in between. `total_samples` counts the 16 kHz
    samples processed so far; `received_samples` is the same number.
    """

    def __init__(
        self,
        sample_rate: int,
        encoding: str,
        detector: VoiceDetector,
        options: EndpointingOptions | None,
        start: AudioCheckpoint = BEGIN,
        skip: int = 0,
        turn_probability: TurnProbability | None = None,
        stalls: Sequence[Stall] = (),
    ) -> None:
        """`sample_rate` is in Hz, `encoding` one of `audio.pcm.ENCODINGS`.

        Without `options` all audio is passed on. Endpointing continues at `start`, before which the
        client sends `skip` 16 kHz samples for the resampler. `turn_probability` is required if
        `options` has `turns`. At `stalls`, in order, a client stalled that now sends its audio
        again.
        """
        self._pcm = PcmStream(sample_rate, encoding, skip)
        self._detector = detector
        self._turn_probability = turn_probability
        self._voice = VoiceState() if start.voice is None else start.voice.state()
        # Voice activity is known up to there: the audio is for the endpointer only.
        self._decided = start.sample if start.gate is None else start.gate.decided
        self._endpointer = (
            None if options is None else Endpointer(options, start.sample, start.gate)
        )
        self._begun = self._ended = self._stalled = False
        self._stalls = deque(stalls)
        self._held = bytearray()
        held_seconds = _HELD_SECONDS_OPEN if options is None else _HELD_SECONDS
        self._per_second = per_second = sample_rate * self._pcm.sample_bytes
        self._enough_bytes = int(held_seconds * sample_rate) * self._pcm.sample_bytes
        self._rate = sample_rate
        self._tick = _tick(options)
        self._slice_bytes = min(_SLICE_BYTES, int(_SLICE_SECONDS * per_second))
        self.total_samples = start.sample

    def take(self, data: bytes) -> None:
        """Take any number of bytes, to be processed by `process`, or with later ones.

        Raises ProtocolError if they are the beginning of a file.
        """
        if data and not self._begun:
            if (container := container_of(data)) is not None:
                raise ProtocolError(
                    f"the audio begins with the mark of {container}: a container is not supported "
                    "on live connections, send its samples"
                )
            self._begun = True
        self._held += data

    def seconds(self, data: bytes) -> float:
        """Return how long these bytes of audio are."""
        return len(data) / self._per_second

    def hold_back(self, speech: int | None) -> None:
        """Hold audio back until a decision is possible.

        A decision is possible once `speech` more samples have been passed on, if known, once a
        silence is long enough, or after 160 ms. `Holding` passes on audio that the client does not
        complete.
        """
        self._enough_bytes = self._bytes_until_decision(speech)

    def missing_bytes(self, speech: int | None) -> int:
        """Return how many more bytes must be taken until a decision is possible; at least 1."""
        return max(1, self._bytes_until_decision(speech) - len(self._held))

    def _bytes_until_decision(self, speech: int | None) -> int:
        at = self.total_samples
        if self._endpointer is None:
            until = at + max(1, min(self._tick, self._tick if speech is None else speech))
        else:
            decided = self._endpointer.decided
            turning = self._endpointer.turning_point(speech)
            wanted = self._tick if turning is None else min(self._tick, turning - decided)
            until = decided + -(-wanted // VAD_FRAME) * VAD_FRAME
        missing = -(-(until - at) * self._rate // SAMPLE_RATE) * self._pcm.sample_bytes
        return min(missing, self._slice_bytes)

    @property
    def ready(self) -> bool:
        """Whether the bytes taken are enough to be processed. The others wait for more."""
        return len(self._held) >= self._enough_bytes

    @property
    def holds(self) -> bool:
        """Whether bytes were taken that are not processed."""
        return bool(self._held)

    async def process(self) -> list[AudioEvent]:
        """Process the next slice: at most a second of audio, and 32 KiB."""
        return await self._through_gate(self._pcm.push(self._next_slice()))

    async def stall(self, samples: int) -> list[AudioEvent]:
        """The client has sent nothing for the time of `samples`, which counts as silence.

        Call this when nothing is held. Positions count audio only. Audio that follows is
        listened to anew.
        """
        if self._endpointer is None:
            return []
        self._stalled, self._voice = True, VoiceState()
        return await self._answered(self._endpointer.stall(samples))

    @property
    def stall_needed(self) -> int | None:
        """Samples of time after which a `stall` changes something; None if it never does."""
        return None if self._endpointer is None else self._endpointer.stall_needed

    @property
    def gap(self) -> int:
        """Samples of time without audio since the last speech, which `total_samples` excludes."""
        return 0 if self._endpointer is None else self._endpointer.gap

    @property
    def closed_gap(self) -> int:
        """As `gap`, without the stall that lasts."""
        return 0 if self._endpointer is None else self._endpointer.closed_gap

    async def end(self) -> list[AudioEvent]:
        """End the input after the last slice that was `ready`."""
        pcm = self._pcm.push(self._next_slice())
        if len(pcm) or not self._stalled:  # after a stall, a few ms of the speech before are left
            pcm = np.concatenate([pcm, self._pcm.end()])
        events = await self._through_gate(pcm)
        self._ended = True
        if self._endpointer is None:
            return events
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        return events + self._endpointer.finish(await self._detector.detect(self._voice, frames))

    @property
    def received_samples(self) -> int:
        """The processed 16 kHz samples that the client sent."""
        return self.total_samples

    @property
    def resting_at(self) -> int | None:
        """The session sample from which a new session can continue.

        None within speech, and without endpointing.
        """
        return None if self._endpointer is None else self._endpointer.resting_at

    @property
    def checkpoint(self) -> AudioCheckpoint | None:
        """The checkpoint from which another frontend can continue; None while the client stalls."""
        if self._stalled and not self._ended:
            return None
        if self._endpointer is None:
            return AudioCheckpoint(self.total_samples, self.total_samples, self.total_samples)
        if self._ended:
            return AudioCheckpoint(self.total_samples, self._endpointer.passed, self.total_samples)
        at, voice = self._endpointer.kept_from, SavedVoiceState.of(self._voice)
        return AudioCheckpoint(at, self._endpointer.passed, at, self._endpointer.state, voice)

    def drop(self) -> None:
        """End the input and discard the bytes that are held; they count as processed."""
        self.total_samples += len(self._pcm.push(bytes(self._held)))
        self._held.clear()

    def _next_slice(self) -> bytes:
        taken = bytes(self._held[: self._slice_bytes])
        del self._held[: self._slice_bytes]
        return taken

    async def _through_gate(self, pcm: Int16) -> list[AudioEvent]:
        events: list[AudioEvent] = []
        while self._stalls and self.total_samples + len(pcm) >= self._stalls[0].at:
            stall = self._stalls.popleft()
            before = stall.at - self.total_samples
            events += await self._through_endpointer(pcm[:before])
            events += await self.stall(stall.samples)
            pcm = pcm[before:]
        return events + await self._through_endpointer(pcm)

    async def _through_endpointer(self, pcm: Int16) -> list[AudioEvent]:
        self._stalled = self._stalled and not len(pcm)
        known = max(0, self._decided - self.total_samples)
        self.total_samples += len(pcm)
        if self._endpointer is None:
            return [AudioChunk(self.total_samples - len(pcm), pcm)] if len(pcm) else []
        frames = self._voice.frames(pcm[known:])
        found = await self._detector.detect(self._voice, frames)
        return await self._answered(self._endpointer.push(pcm, found))

    async def _answered(self, events: list[AudioEvent]) -> list[AudioEvent]:
        while self._endpointer is not None and self._endpointer.asks:
            if self._turn_probability is None:
                raise RuntimeError("endpointing by turns needs a turn model")
            events += self._endpointer.answer(await self._turn_probability(self._endpointer.turn))
        return events


def _tick(options: EndpointingOptions | None) -> int:
    """The most samples between two decisions: less than half of a silence that counts."""
    if options is None:
        return _TICK_FRAMES * VAD_FRAME
    third = options.shortest_ms * SAMPLE_RATE // 3000 // VAD_FRAME
    return min(_TICK_FRAMES, max(_SHORTEST_TICK_FRAMES, third)) * VAD_FRAME


class FeatureIngest:
    """The counterpart of `Ingest` for a client that computes features and does its endpointing.

    `total_samples` is the session sample at which the last packet ended. Calls must be made
    on the event loop and must not overlap.
    """

    def __init__(
        self, dtype: str, max_segment_seconds: float, start: AudioCheckpoint = BEGIN
    ) -> None:
        """`dtype` is the features', one of `audio.features.DTYPES`.

        The next segment begins at `start` or later.
        """
        self._dtype = dtype
        self._max_segment_seconds = max_segment_seconds
        self._taken: deque[bytes] = deque()
        self._open: FeaturePacket | None = None  # the latest packet of the open segment
        self.total_samples = start.sample
        # Samples with features. The silence in between is only the client's claim.
        self.received_samples = start.received

    def take(self, data: bytes) -> None:
        """Take one packet, to be processed by `process`."""
        self._taken.append(data)

    def seconds(self, _data: bytes) -> float:
        """Return 0: only the client ends a segment, so nothing depends on the time."""
        return 0.0

    async def stall(self, _samples: int) -> list[AudioEvent]:
        """A stall has no effect."""
        return []

    @property
    def stall_needed(self) -> None:
        """A stall has no effect."""

    def hold_back(self, _speech: int | None) -> None:
        """Packets are never held back."""

    def missing_bytes(self, _speech: int | None) -> int:
        return 0

    @property
    def ready(self) -> bool:
        return bool(self._taken)

    @property
    def holds(self) -> bool:
        """As `ready`: no packet waits for another."""
        return self.ready

    async def process(self) -> list[AudioEvent]:
        """Process the next packet. Raises ProtocolError if it is wrong, or out of order."""
        packet = unpack(self._taken.popleft(), self._dtype)
        check_features(packet, self._max_segment_seconds)
        self._check_order(packet)
        start = packet.segment_start if self._open is None else self.total_samples
        self._open = None if packet.last else packet
        self.total_samples = packet.end
        self.received_samples += packet.end - start
        return [FeatureChunk(start, packet)]

    @property
    def resting_at(self) -> int | None:
        """The session sample from which a new session can continue; None within a segment."""
        return self.total_samples if self._open is None else None

    @property
    def checkpoint(self) -> AudioCheckpoint | None:
        """The checkpoint from which another frontend can continue; None within a segment."""
        if self._open is not None:
            return None
        return AudioCheckpoint(self.total_samples, self.total_samples, self.received_samples)

    async def end(self) -> list[AudioEvent]:
        """End the input, and an open segment: each packet has frames as if it were the last."""
        self._open = None
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

    It must contain new audio: otherwise packets would cost work without end.
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
