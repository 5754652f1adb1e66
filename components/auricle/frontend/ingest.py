"""A client's bytes to what the processor gets: pieces of speech, and when speech was heard."""

from __future__ import annotations

import asyncio

import numpy as np

from auricle.audio.pcm import Int16, PcmStream
from auricle.audio.voice_activity import VAD_FRAME, VoiceState
from auricle.frontend.endpointing import EndpointingOptions, GateEvent, OpenGate, SpeechGate
from auricle.frontend.voice import VoiceDetector

# Packets of 20 ms would cost five times as many calls as packets of 100 ms: two frames of
# voice activity are looked at together.
_HELD = 2 * VAD_FRAME
# More bytes than a live packet has are converted in a worker thread; for fewer the way
# there and back takes longer than the work (0.1 ms for 100 ms of audio resampled).
_LIVE_BYTES = 1 << 15


class Ingest:
    """One session's audio; calls must not overlap. `total_samples` counts all 16 kHz samples."""

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
        self._held: list[Int16] = []
        self._held_samples = 0
        self.total_samples = 0

    async def push(self, data: bytes) -> list[GateEvent]:
        """The next bytes, any number of them."""
        if len(data) <= _LIVE_BYTES:
            return await self._through_gate(self._pcm.push(data))
        return await self._through_gate(await asyncio.to_thread(self._pcm.push, data))

    async def end(self) -> list[GateEvent]:
        """No more bytes. Raises ProtocolError on half a sample."""
        events = await self._through_gate(self._pcm.end(), last=True)
        if self._gate is None:
            return events
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        return events + self._gate.finish(await self._detector.detect(self._voice, frames))

    async def _through_gate(self, pcm: Int16, *, last: bool = False) -> list[GateEvent]:
        self.total_samples += len(pcm)
        if self._gate is None:
            return self._open_gate.push(pcm)
        self._held.append(pcm)
        self._held_samples += len(pcm)
        if self._held_samples < _HELD and not last:
            return []
        pcm = np.concatenate(self._held)
        self._held, self._held_samples = [], 0
        frames = self._voice.frames(pcm)
        return self._gate.push(pcm, await self._detector.detect(self._voice, frames))
