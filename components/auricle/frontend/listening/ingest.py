"""Turns a client's bytes into pieces of speech, and into events when speech starts and stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16, PcmStream
from auricle.audio.voice_activity import VAD_FRAME, VoiceState
from auricle.frontend.listening.endpointing import EndpointingOptions, SpeechGate
from auricle.frontend.listening.open_gate import OpenGate
from auricle.frontend.listening.pieces import GateEvent
from auricle.frontend.listening.point import BEGIN, ListeningPoint, VoiceMemory
from auricle.frontend.listening.voice import VoiceDetector

# Packets of 20 ms would cost five times as many calls as packets of 100 ms. Bytes are therefore
# held until they fill two frames of voice activity detection.
_HELD_SECONDS = 2 * VAD_FRAME / SAMPLE_RATE
# Without voice activity detection: a client that sends single samples must not cost an object for
# each of them.
_HELD_SECONDS_OPEN = 0.01
# A session that says what it waits for is looked at this often, if nothing is decided before:
# looking costs as much as 30 ms of voice activity detection do.
_TICK_FRAMES = 5
_SHORTEST_TICK_FRAMES = 2
# Audio is processed in slices of at most so much, each of which takes about a millisecond of the
# event loop, so that no frame is too large to leave the loop to others in between.
_SLICE_SECONDS = 1.0
_SLICE_BYTES = 1 << 15


# Returns the probability that the turn is over that ends with this audio.
Judge = Callable[[Int16], Awaitable[float]]


class Ingest:
    """The audio of one session. Calls must be made on the event loop and must not overlap.

    Bytes are taken with `take` and processed slice by slice: call `process` while there is a
    slice that is `ready`, and let other sessions run in between. `total_samples` counts the 16 kHz
    samples processed so far; `heard_samples` is the same number.
    """

    def __init__(
        self,
        sample_rate: int,
        encoding: str,
        detector: VoiceDetector,
        options: EndpointingOptions | None,
        start: ListeningPoint = BEGIN,
        skip: int = 0,
        judge: Judge | None = None,
    ) -> None:
        """`sample_rate` is in Hz, `encoding` one of `audio.pcm.ENCODINGS`.

        Without `options` all audio is passed on. Listening goes on at `start`, before which the
        client sends `skip` 16 kHz samples for the resampler. `judge` is needed if `options` has
        `turns`.
        """
        self._pcm = PcmStream(sample_rate, encoding, skip)
        self._detector = detector
        self._judge = judge
        self._voice = VoiceState() if start.voice is None else start.voice.state()
        # Up to there voice activity is known: the audio is for the gate only.
        self._decided = start.sample if start.gate is None else start.gate.decided
        self._gate = None if options is None else SpeechGate(options, start.sample, start.gate)
        self._open_gate = OpenGate(start.sample)
        self._ended = False
        self._held = bytearray()
        held_seconds = _HELD_SECONDS_OPEN if options is None else _HELD_SECONDS
        per_second = sample_rate * self._pcm.sample_bytes
        self._enough_bytes = int(held_seconds * sample_rate) * self._pcm.sample_bytes
        self._rate = sample_rate
        self._tick = _tick(options)
        self._slice_bytes = min(_SLICE_BYTES, int(_SLICE_SECONDS * per_second))
        self.total_samples = start.sample

    def take(self, data: bytes) -> None:
        """Take any number of bytes, to be processed by `process`, or with later ones."""
        self._held += data

    def expect(self, speech: int | None) -> int:
        """Hold audio back until something can be decided; return how many bytes more that takes.

        That is once `speech` more samples have been passed on, if it is known how many the
        processor waits for, once a silence is long enough, or else after 160 ms. What the client
        does not complete is passed on by `Holding`.
        """
        at = self.total_samples
        if self._gate is None:
            until = at + max(1, min(self._tick, self._tick if speech is None else speech))
        else:
            decided = self._gate.decided
            turning = self._gate.turning_point(speech)
            wanted = self._tick if turning is None else min(self._tick, turning - decided)
            until = decided + -(-wanted // VAD_FRAME) * VAD_FRAME
        missing = -(-(until - at) * self._rate // SAMPLE_RATE) * self._pcm.sample_bytes
        self._enough_bytes = min(missing, self._slice_bytes)
        return max(1, self._enough_bytes - len(self._held))

    @property
    def ready(self) -> bool:
        """Whether the bytes taken are enough to be processed. The others wait for more."""
        return len(self._held) >= self._enough_bytes

    @property
    def holds(self) -> bool:
        """Whether bytes were taken that are not processed."""
        return bool(self._held)

    async def process(self) -> list[GateEvent]:
        """Process the next slice: at most a second of audio, and 32 KiB."""
        return await self._through_gate(self._pcm.push(self._next_slice()))

    async def end(self) -> list[GateEvent]:
        """End the input, of which no slice is `ready`. Raises ProtocolError within a sample."""
        pcm = self._pcm.push(self._next_slice())
        events = await self._through_gate(np.concatenate([pcm, self._pcm.end()]))
        self._ended = True
        if self._gate is None:
            return events
        frames = self._voice.frames(np.zeros(0, np.int16), last=True)
        return events + self._gate.finish(await self._detector.detect(self._voice, frames))

    @property
    def heard_samples(self) -> int:
        """The 16 kHz samples that the client sent, as far as they are processed."""
        return self.total_samples

    @property
    def resting_at(self) -> int | None:
        """The session sample from which a new session can continue.

        None within speech, and without endpointing.
        """
        return None if self._gate is None else self._gate.resting_at

    @property
    def point(self) -> ListeningPoint:
        """Where another frontend can go on listening, as if it had listened so far."""
        if self._gate is None:
            return ListeningPoint(self.total_samples, self.total_samples, self.total_samples)
        if self._ended:
            return ListeningPoint(self.total_samples, self._gate.passed, self.total_samples)
        at, voice = self._gate.kept_from, VoiceMemory.of(self._voice)
        return ListeningPoint(at, self._gate.passed, at, self._gate.memory, voice)

    def drop(self) -> None:
        """End the input and discard the bytes that are held; they count as processed."""
        self.total_samples += len(self._pcm.push(bytes(self._held)))
        self._held.clear()

    def _next_slice(self) -> bytes:
        taken = bytes(self._held[: self._slice_bytes])
        del self._held[: self._slice_bytes]
        return taken

    async def _through_gate(self, pcm: Int16) -> list[GateEvent]:
        known = max(0, self._decided - self.total_samples)
        self.total_samples += len(pcm)
        if self._gate is None:
            return self._open_gate.push(pcm) if len(pcm) else []
        frames = self._voice.frames(pcm[known:])
        events = self._gate.push(pcm, await self._detector.detect(self._voice, frames))
        while self._gate.asks:
            if self._judge is None:
                raise RuntimeError("endpointing by turns needs a turn model")
            events += self._gate.answer(await self._judge(self._gate.turn))
        return events


def _tick(options: EndpointingOptions | None) -> int:
    """Samples from one look at the audio to the next: less than half of a silence that counts."""
    if options is None:
        return _TICK_FRAMES * VAD_FRAME
    third = options.shortest_ms * SAMPLE_RATE // 3000 // VAD_FRAME
    return min(_TICK_FRAMES, max(_SHORTEST_TICK_FRAMES, third)) * VAD_FRAME
