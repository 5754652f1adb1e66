"""Simulated speakers, each with a session like those of a processor."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.errors import AuricleError
from auricle.load.chunk_load import ChunkLoad
from auricle.messages.sessions import Boundary, Failed, OpenSession
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.settings import ProcessorSettings
from auricle.tasks import cancelled

_PUSH_SECONDS = 5.0
# A latency target that is never reached: nobody is refused here.
NEVER = 3600.0


@dataclass(frozen=True)
class Speech:
    """Recordings (16 kHz int16) to say in segments, decoded every `chunk_ms` of audio."""

    recordings: Sequence[Int16]
    segment_seconds: float
    chunk_ms: int


class Speaker:
    """Says random parts of the recordings in real time, until cancelled."""

    def __init__(
        self,
        speech: Speech,
        settings: ProcessorSettings,
        view: CheckpointView,
        encode_pool: EncodePool,
        pd_pool: PdPool,
        seed: int,
    ) -> None:
        self._speech = speech
        self._chance = np.random.default_rng(seed)
        name = f"profile-{uuid.uuid4().hex[:12]}"
        opened = OpenSession(name, name, None, "", speech.chunk_ms)
        recognizer = Recognizer(name, name, encode_pool, pd_pool)
        self._session = SessionDriver(opened, settings, view, recognizer, ChunkLoad(NEVER))

    async def run(self) -> None:
        """Speak until cancelled. Raises AuricleError if the session fails."""
        events = asyncio.create_task(self._events())
        try:
            speaking = asyncio.create_task(self._speak())
            done, _ = await asyncio.wait({events, speaking}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancelled([events, speaking])

    async def _events(self) -> None:
        async for event in self._session.events():
            if isinstance(event, Failed):
                raise AuricleError(f"a session failed while profiling: {event.message}")

    async def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        chunk = self._speech.chunk_ms * SAMPLE_RATE // 1000
        # Speakers must not be in phase.
        began, said = loop.time() + self._chance.uniform(0, chunk / SAMPLE_RATE), 0
        while True:
            segment = self._segment()
            for start in range(0, len(segment), chunk):
                piece = segment[start : start + chunk]
                last = start + chunk >= len(segment)
                await asyncio.sleep(began + (said + len(piece)) / SAMPLE_RATE - loop.time())
                boundary: Boundary = "endpoint" if last else "none"
                await self._session.push(said, piece.tobytes(), _PUSH_SECONDS, boundary)
                said += len(piece)

    def _segment(self) -> Int16:
        """Return a segment of about the requested length, from a random place in a recording."""
        length = self._speech.segment_seconds * self._chance.uniform(0.7, 1.3)
        return random_part(self._speech.recordings, int(length * SAMPLE_RATE), self._chance)


def random_part(recordings: Sequence[Int16], samples: int, chance: np.random.Generator) -> Int16:
    """Return so many samples from a random place in a recording, which goes round."""
    recording = recordings[int(chance.integers(len(recordings)))]
    turned = np.roll(recording, -int(chance.integers(len(recording))))
    return np.resize(turned, samples).astype("<i2")
