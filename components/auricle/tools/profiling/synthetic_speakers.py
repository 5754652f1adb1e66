"""The speakers of one process, and the pools that they call."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.core.aio import cancelled
from auricle.core.errors import AuricleError
from auricle.dynamo import Runtime
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.processor.recognizer import Recognizer
from auricle.protocol.recognition import DecodeReply, DecodeRequest
from auricle.protocol.sessions import Boundary, Failed, OpenSession, SegmentFinal, WholeAudio

# Simulated speakers, each with a session like those of a processor.

_PUSH_SECONDS = 5.0
# A latency target that is never reached: nobody is refused here.
NEVER = 3600.0


@dataclass(frozen=True)
class Speech:
    """Recordings (16 kHz int16) to say in segments, decoded every `chunk_ms` of audio."""

    recordings: Sequence[Int16]
    segment_seconds: float
    chunk_ms: int


class SyntheticSpeaker:
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


_READY_SECONDS = 60.0
CHUNK_MS = 640


@dataclass(frozen=True)
class Stage:
    """What every process with speakers needs: settings, checkpoint, and recordings to say."""

    settings: ProcessorSettings
    checkpoint: ModelCheckpoint
    recordings: Sequence[Int16]


@dataclass(frozen=True)
class SpeakerGroup:
    """`count` speakers, numbered from `first` on; `decoding` loads PD workers as well."""

    segment_seconds: float
    decoding: bool
    first: int
    count: int


@dataclass(frozen=True)
class Said:
    """What is said in a piece of a recording, and in which language, as the model names it."""

    text: str
    language: str
    seconds: float


class _NoPdPool(PdPool):
    """Answers every decode at once and empty, so that only the encode worker is loaded."""

    async def decode(self, placement: Placement, request: DecodeRequest) -> DecodeReply:
        return DecodeReply((), "stop", 0, 0, 0)


class Cast:
    """Makes speakers that call the workers of a graph."""

    def __init__(self, runtime: Runtime, stage: Stage) -> None:
        settings, checkpoint = stage.settings, stage.checkpoint
        self._stage = stage
        self._view = CheckpointView(
            checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint
        )
        encode = runtime.client("encode_worker", "generate")
        pd = runtime.client("pd_worker", "generate")
        self._encode = EncodePool(encode, settings.encode_deadline_seconds, settings.attempts)
        self._pd = PdPool(pd, settings.decode_deadline_seconds, settings.attempts)
        self._no_pd = _NoPdPool(pd, settings.decode_deadline_seconds, settings.attempts)

    async def ready(self) -> None:
        """Wait until the workers can be called. Raises DeadlineExceeded."""
        await self._encode.ready(_READY_SECONDS)
        await self._pd.ready(_READY_SECONDS)

    def start(self, part: SpeakerGroup) -> list[asyncio.Task[None]]:
        """Return tasks that speak until cancelled, and raise AuricleError if a session fails."""
        speech = Speech(self._stage.recordings, part.segment_seconds, CHUNK_MS)
        pool = self._pd if part.decoding else self._no_pd
        seeds = range(part.first, part.first + part.count)
        return [asyncio.create_task(self._speaker(speech, pool, seed).run()) for seed in seeds]

    async def said(self, pcm: Int16) -> Said:
        """Return what is said in a piece of up to 30 s. Raises AuricleError if that fails."""
        whole = WholeAudio(0, pcm.astype("<i2").tobytes(), "endpoint", len(pcm))
        opened = OpenSession("profile", "profile", None, "", CHUNK_MS, partials=False, whole=whole)
        recognizer = Recognizer("profile", "profile", self._encode, self._pd)
        session = SessionDriver(
            opened, self._stage.settings, self._view, recognizer, ChunkLoad(NEVER)
        )
        finals: list[SegmentFinal] = []
        async with aclosing(session.events()) as events:
            async for event in events:
                if isinstance(event, Failed):
                    raise AuricleError(f"a recording was not recognised: {event.message}")
                if isinstance(event, SegmentFinal):
                    finals.append(event)
        text = " ".join(final.text for final in finals if final.text)
        return Said(text, finals[0].language if finals else "", len(pcm) / SAMPLE_RATE)

    def _speaker(self, speech: Speech, pool: PdPool, seed: int) -> SyntheticSpeaker:
        return SyntheticSpeaker(speech, self._stage.settings, self._view, self._encode, pool, seed)
