"""Simulated speakers: sessions as in a processor, paced in real time, without a frontend."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

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
from auricle.protocol.sessions import (
    Boundary,
    Failed,
    OpenSession,
    SegmentFinal,
    SegmentPartial,
    WholeAudio,
)
from auricle.tools.load_generation.pacing import paced

CHUNK_MS = 640
CHUNK = CHUNK_MS * SAMPLE_RATE // 1000  # samples
_PUSH_SECONDS = 5.0
_READY_SECONDS = 60.0
_NEVER = 3600.0  # a latency target that is never exceeded, so that no session is refused


@dataclass(frozen=True)
class Speech:
    """Recordings (16 kHz int16), spoken in segments of about `segment_seconds`."""

    recordings: Sequence[Int16]
    segment_seconds: float

    def segment(self, chance: np.random.Generator, *, first: bool = False) -> Int16:
        """Return a segment from a random place.

        The `first` one may be as short as a chunk, so that speakers that start together are soon at
        different places of their segments.
        """
        seconds = self.segment_seconds * chance.uniform(0.0 if first else 0.7, 1.3)
        return random_part(self.recordings, max(CHUNK, int(seconds * SAMPLE_RATE)), chance)


def random_part(recordings: Sequence[Int16], samples: int, chance: np.random.Generator) -> Int16:
    """Return `samples` samples from a random place in a recording, which is repeated if needed."""
    recording = recordings[int(chance.integers(len(recordings)))]
    turned = np.roll(recording, -int(chance.integers(len(recording))))
    return np.resize(turned, samples).astype("<i2")


@dataclass(frozen=True)
class Chunk:
    """Audio up to session sample `end`, due at that time; `last` of its segment."""

    end: int
    due: float
    last: bool


class SpeakerObserver(Protocol):
    """Receives the chunks and texts of a speaker, with their times on the event loop's clock."""

    def pushed(self, chunk: Chunk, now: float) -> None:
        """A chunk is being pushed."""
        ...

    def text(self, milliseconds: int, now: float) -> None:
        """A text covers the session up to `milliseconds`."""
        ...


class _Ignored:
    def pushed(self, chunk: Chunk, now: float) -> None:
        pass

    def text(self, milliseconds: int, now: float) -> None:
        pass


@dataclass(frozen=True)
class Pools:
    """The pools that sessions call, and the settings that all sessions share."""

    settings: ProcessorSettings
    view: CheckpointView
    encode: EncodePool
    pd: PdPool

    def session(self, opened: OpenSession) -> SessionDriver:
        """Return a session that calls these pools."""
        recognizer = Recognizer(opened.session, opened.session, self.encode, self.pd)
        return SessionDriver(opened, self.settings, self.view, recognizer, ChunkLoad(_NEVER))


async def speak(
    speech: Speech,
    pools: Pools,
    chance: np.random.Generator,
    language: str | None = None,
    observer: SpeakerObserver | None = None,
) -> None:
    """Speak random segments in one session until cancelled. Raises AuricleError if it fails."""
    name = f"speaker-{uuid.uuid4().hex[:12]}"
    session = pools.session(OpenSession(name, name, language, "", CHUNK_MS))
    observer = observer or _Ignored()
    tasks = [
        asyncio.create_task(_listen(session, observer)),
        asyncio.create_task(_push(session, speech, chance, observer)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancelled(tasks)


async def _listen(session: SessionDriver, observer: SpeakerObserver) -> None:
    now = asyncio.get_running_loop().time
    async for event in session.events():
        if isinstance(event, Failed):
            raise AuricleError(f"a session failed: {event.message}")
        if isinstance(event, SegmentPartial):
            observer.text(event.audio_ms, now())
        elif isinstance(event, SegmentFinal):
            observer.text(event.end_ms, now())


async def _push(
    session: SessionDriver, speech: Speech, chance: np.random.Generator, observer: SpeakerObserver
) -> None:
    now = asyncio.get_running_loop().time
    # Speakers must not be in phase.
    began, spoken, first = now() + chance.uniform(0, CHUNK / SAMPLE_RATE), 0, True
    while True:
        segment, start = speech.segment(chance, first=first), spoken
        first = False
        async for due, piece in paced(segment, CHUNK, began + start / SAMPLE_RATE):
            last = spoken + len(piece) == start + len(segment)
            observer.pushed(Chunk(spoken + len(piece), due, last), now())
            boundary: Boundary = "endpoint" if last else "none"
            await session.push(spoken, piece.tobytes(), _PUSH_SECONDS, boundary)
            spoken += len(piece)


@dataclass(frozen=True)
class LoadInput:
    """Settings, checkpoint and recordings, which every process with speakers needs."""

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
class SpokenText:
    """The text of a piece of a recording, and its language as the model names it."""

    text: str
    language: str
    seconds: float


class _NoPdPool(PdPool):
    """Answers every decode at once, so that only the encode worker is loaded.

    An answer is empty, or a language if only languages are allowed.
    """

    async def decode(self, placement: Placement, request: DecodeRequest) -> DecodeReply:
        tokens = request.allowed[:1]
        return DecodeReply(tokens, "stop", 0, 0, 0, logprobs=(0.0,) * len(tokens))


class SpeakerPools:
    """Makes speakers that call the workers of a graph."""

    def __init__(self, runtime: Runtime, source: LoadInput, *, local: bool = False) -> None:
        """With `local`, workers on this machine are called over sockets; see `dynamo.local`."""
        settings, checkpoint = source.settings, source.checkpoint
        self._recordings = source.recordings
        view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
        encode = runtime.client("encode_worker", "generate", local=local)
        pd = runtime.client("pd_worker", "generate", local=local)
        encode_pool = EncodePool(encode, settings.encode_deadline_seconds, settings.attempts)
        deadline, attempts = settings.decode_deadline_seconds, settings.attempts
        self.pools = Pools(settings, view, encode_pool, PdPool(pd, deadline, attempts))
        no_pd = _NoPdPool(pd, deadline, attempts)
        self._encode_only = Pools(settings, view, encode_pool, no_pd)

    async def ready(self) -> None:
        """Wait until the workers can be called. Raises DeadlineExceeded."""
        await self.pools.encode.ready(_READY_SECONDS)
        await self.pools.pd.ready(_READY_SECONDS)

    def start(self, group: SpeakerGroup) -> list[asyncio.Task[None]]:
        """Return tasks that speak until cancelled, and raise AuricleError if a session fails."""
        speech = Speech(self._recordings, group.segment_seconds)
        pools = self.pools if group.decoding else self._encode_only
        return [
            asyncio.create_task(speak(speech, pools, np.random.default_rng(seed)))
            for seed in range(group.first, group.first + group.count)
        ]

    async def transcribe(self, pcm: Int16) -> SpokenText:
        """Return the text of a piece of up to 30 s. Raises AuricleError if that fails."""
        whole = WholeAudio(0, pcm.astype("<i2").tobytes(), "endpoint", len(pcm))
        opened = OpenSession("profile", "profile", None, "", CHUNK_MS, partials=False, whole=whole)
        finals: list[SegmentFinal] = []
        async with aclosing(self.pools.session(opened).events()) as events:
            async for event in events:
                if isinstance(event, Failed):
                    raise AuricleError(f"a recording was not recognised: {event.message}")
                if isinstance(event, SegmentFinal):
                    finals.append(event)
        text = " ".join(final.text for final in finals if final.text)
        return SpokenText(text, finals[0].language if finals else "", len(pcm) / SAMPLE_RATE)
