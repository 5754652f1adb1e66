"""The results of endpointing: chunks of speech, and marks. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from auricle.audio.features import FeaturePacket
from auricle.audio.pcm import Int16
from auricle.protocol.sessions import Boundary


@dataclass(frozen=True)
class AudioChunk:
    """16 kHz mono audio, shape (n,), from session sample `start`; `boundary` follows it."""

    start: int
    pcm: Int16
    boundary: Boundary = "none"

    @property
    def end(self) -> int:
        """The session sample after the last one."""
        return self.start + len(self.pcm)


@dataclass(frozen=True)
class FeatureChunk:
    """Features from session sample `start` instead of audio. They are never cut or joined."""

    start: int
    packet: FeaturePacket

    @property
    def boundary(self) -> Boundary:
        """An endpoint after the segment's last packet, because the client does endpointing."""
        return "endpoint" if self.packet.last else "none"

    @property
    def end(self) -> int:
        """The session sample after the last one."""
        return self.packet.end


@dataclass(frozen=True)
class SpeechOnset:
    """Speech began at session sample `at`, which does not include the pre-roll."""

    at: int


@dataclass(frozen=True)
class SpeechEnd:
    """Speech ended at session sample `at`. Emitted once the silence was long enough.

    `probability` is the turn model's, if it has ended speech at once.
    """

    at: int
    probability: float | None = None


@dataclass(frozen=True)
class TurnPause:
    """Speech paused at session sample `at`: with this probability (0 to 1) the turn is over.

    `TurnResumption` or `SpeechEnd` follows.
    """

    at: int
    probability: float


@dataclass(frozen=True)
class TurnResumption:
    """The turn that had paused continues at session sample `at`."""

    at: int


Mark = SpeechOnset | SpeechEnd | TurnPause | TurnResumption
AudioEvent = AudioChunk | FeatureChunk | Mark


def merged(events: list[AudioEvent]) -> list[AudioEvent]:
    """Join adjacent chunks without a boundary between them; each sample is copied once."""
    merged: list[AudioEvent] = []
    run: list[AudioChunk] = []
    for event in events:
        if run and not (isinstance(event, AudioChunk) and _adjacent(run[-1], event)):
            merged.append(_joined(run))
            run = []
        if isinstance(event, AudioChunk):
            run.append(event)
        else:
            merged.append(event)
    return [*merged, _joined(run)] if run else merged


def _adjacent(chunk: AudioChunk, following: AudioChunk) -> bool:
    return chunk.boundary == "none" and chunk.end == following.start


def _joined(run: list[AudioChunk]) -> AudioChunk:
    if len(run) == 1:
        return run[0]
    return AudioChunk(run[0].start, np.concatenate([chunk.pcm for chunk in run]), run[-1].boundary)


class Deinterleaver:
    """Splits interleaved audio, in packets of any size, into the samples of each channel."""

    def __init__(self, channels: int, sample_bytes: int) -> None:
        self._channels = channels
        self._sample_bytes = sample_bytes
        self._part = b""  # an incomplete group of one sample for each channel

    def split(self, data: bytes) -> list[bytes]:
        """Return the whole samples of each channel that `data` completes."""
        if self._channels == 1 and self._sample_bytes == 1:
            return [data]
        data = self._part + data if self._part else data
        size = self._channels * self._sample_bytes
        whole = len(data) - len(data) % size
        self._part = data[whole:]
        if self._channels == 1 or not whole:
            return [data[:whole]] * self._channels
        samples = np.frombuffer(data, np.uint8, whole)
        samples = samples.reshape(-1, self._channels, self._sample_bytes)
        return [samples[:, number].tobytes() for number in range(self._channels)]
