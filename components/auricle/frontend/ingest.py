"""A client's bytes to what the processor gets: pieces of speech, and when speech was heard."""

from __future__ import annotations

import asyncio

import numpy as np

from auricle.audio.mel import SAMPLE_RATE
from auricle.audio.pcm import Int16, PcmStream
from auricle.audio.voice_activity import VAD_FRAME, VoiceState
from auricle.frontend.endpointing import EndpointingOptions, GateEvent, OpenGate, SpeechGate
from auricle.frontend.voice import VoiceDetector

# Packets of 20 ms would cost five times as many calls as packets of 100 ms: bytes are looked
# at once they are enough for two frames of voice activity.
_HELD_SECONDS = 2 * VAD_FRAME / SAMPLE_RATE
# More bytes than a live packet has are converted in a worker thread; for fewer the way
# there and back takes longer than the work (0.1 ms for 100 ms of audio resampled).
_LIVE_BYTES = 1 << 15


class Ingest:
    """One session's audio; calls must not overlap.

    `total_samples` counts the 16 kHz samples looked at: all of them after `end` or `drop`.
    """

    def __init__(
        self,
        sample_rate: int,
        encoding: str,
        detector: VoiceDetector,
        options: EndpointingOptions | None,
    ) -> None:
        """Without `options` all audio goes through."""
        self._pcm = PcmStream(sample_rate, encoding)
        self._detector = detector
        self._voice = VoiceState()
        self._gate = None if options is None else SpeechGate(options)
        self._open_gate = OpenGate()
        self._held: list[bytes] = []
        self._held_bytes = 0
        held_seconds = 0.0 if options is None else _HELD_SECONDS
        self._enough_bytes = int(held_seconds * sample_rate) * self._pcm.sample_bytes
        self.total_samples = 0

    async def push(self, data: bytes) -> list[GateEvent]:
        """The next bytes, any number of them; a few may have to wait for more."""
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < self._enough_bytes:
            return []
        return await self._through_gate(await self._convert(self._take_held()))

    async def end(self) -> list[GateEvent]:
        """No more bytes. Raises ProtocolError on half a sample."""
        pcm = await self._convert(self._take_held())
        events = await self._through_gate(np.concatenate([pcm, self._pcm.end()]))
        if self._gate is None:
            return events
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        return events + self._gate.finish(await self._detector.detect(self._voice, frames))

    @property
    def resting_at(self) -> int | None:
        """Session sample from which on a new session can go on; None within speech."""
        return None if self._gate is None else self._gate.resting_at

    def drop(self) -> None:
        """No more bytes, and nobody wants to know what those that wait were."""
        self.total_samples += len(self._pcm.push(self._take_held()))

    def _take_held(self) -> bytes:
        held = b"".join(self._held)
        self._held, self._held_bytes = [], 0
        return held

    async def _convert(self, data: bytes) -> Int16:
        if len(data) <= _LIVE_BYTES:
            return self._pcm.push(data)
        return await asyncio.to_thread(self._pcm.push, data)

    async def _through_gate(self, pcm: Int16) -> list[GateEvent]:
        self.total_samples += len(pcm)
        if self._gate is None:
            return self._open_gate.push(pcm)
        frames = self._voice.frames(pcm)
        return self._gate.push(pcm, await self._detector.detect(self._voice, frames))
