"""A speaker without a client: a session as in a processor, paced in real time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.protocol.sessions import Boundary, Failed, OpenSession, SegmentFinal, SegmentPartial
from benchmarks.gpu.heard import Chunk, Chunks, Heard

CHUNK = 640 * SAMPLE_RATE // 1000  # samples
_PUSH_SECONDS = 5.0
_AGAIN_SECONDS = 0.5
# No target is late here: nobody is refused or slowed down.
_NEVER = 3600.0
# Random weights name no language, and without a name there is no text.
_LANGUAGE = "English"


@dataclass(frozen=True)
class Pools:
    """What all sessions of a driver share."""

    settings: ProcessorSettings
    view: CheckpointView
    encode: EncodePool
    pd: PdPool


@dataclass(frozen=True)
class Speech:
    """Recordings (16 kHz int16), said in segments of about that length."""

    recordings: Sequence[Int16]
    segment_seconds: float

    def segment(self, chance: np.random.Generator, *, first: bool) -> Int16:
        """Return a segment from a random place.

        The `first` one may be as short as a chunk, so that speakers who begin together are soon at
        all places of their segments.
        """
        seconds = self.segment_seconds * chance.uniform(0.0 if first else 0.7, 1.3)
        samples = max(CHUNK, int(seconds * SAMPLE_RATE))
        recording = self.recordings[int(chance.integers(len(self.recordings)))]
        return np.resize(np.roll(recording, -int(chance.integers(len(recording)))), samples)


class Speaker:
    """Speaks until cancelled; a session that fails is noted and followed by another one."""

    def __init__(self, speech: Speech, pools: Pools, heard: Heard, seed: int) -> None:
        self._speech, self._pools, self._heard = speech, pools, heard
        self._chance = np.random.default_rng(seed)

    async def run(self) -> None:
        """Speak one session after the other."""
        while True:
            chunks = Chunks(self._heard)
            try:
                await self._session(chunks)
            except AuricleError as error:
                self._heard.failures.append(str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
            finally:
                chunks.over(asyncio.get_running_loop().time())

    async def _session(self, chunks: Chunks) -> None:
        pools, name = self._pools, f"stream-{uuid.uuid4().hex[:12]}"
        opened = OpenSession(name, name, _LANGUAGE, "", CHUNK * 1000 // SAMPLE_RATE)
        recognizer = Recognizer(name, name, pools.encode, pools.pd)
        session = SessionDriver(opened, pools.settings, pools.view, recognizer, ChunkLoad(_NEVER))
        tasks = [
            asyncio.create_task(self._listen(session, chunks)),
            asyncio.create_task(self._speak(session, chunks)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancelled(tasks)

    async def _listen(self, session: SessionDriver, chunks: Chunks) -> None:
        loop = asyncio.get_running_loop()
        async for event in session.events():
            if isinstance(event, Failed):
                raise AuricleError(event.message)
            if isinstance(event, SegmentPartial):
                chunks.text(event.audio_ms, loop.time())
            elif isinstance(event, SegmentFinal):
                chunks.text(event.end_ms, loop.time())

    async def _speak(self, session: SessionDriver, chunks: Chunks) -> None:
        loop = asyncio.get_running_loop()
        # Speakers must not be in phase.
        began, said, first = loop.time() + self._chance.uniform(0, CHUNK / SAMPLE_RATE), 0, True
        while True:
            segment = self._speech.segment(self._chance, first=first)
            first = False
            for start in range(0, len(segment), CHUNK):
                piece = segment[start : start + CHUNK]
                last = start + CHUNK >= len(segment)
                due = began + (said + len(piece)) / SAMPLE_RATE
                await asyncio.sleep(max(0.0, due - loop.time()))
                chunks.pushed(Chunk(said + len(piece), due, last), loop.time())
                boundary: Boundary = "endpoint" if last else "none"
                await session.push(said, piece.astype("<i2").tobytes(), _PUSH_SECONDS, boundary)
                said += len(piece)
