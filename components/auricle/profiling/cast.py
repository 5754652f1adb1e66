"""The speakers of one process, and the pools that they call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.pcm import Int16
from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.errors import AuricleError
from auricle.load.chunk_load import ChunkLoad
from auricle.messages.decoding import DecodeReply, DecodeRequest
from auricle.messages.sessions import Failed, Final, OpenSession, WholeAudio
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.processor.recognizer import Recognizer
from auricle.profiling.speakers import NEVER, Speaker, Speech
from auricle.runtime import Runtime
from auricle.settings import ProcessorSettings

_READY_SECONDS = 60.0
CHUNK_MS = 640


@dataclass(frozen=True)
class Stage:
    """What every process with speakers needs: settings, checkpoint, and recordings to say."""

    settings: ProcessorSettings
    checkpoint: Checkpoint
    recordings: Sequence[Int16]


@dataclass(frozen=True)
class Part:
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

    def start(self, part: Part) -> list[asyncio.Task[None]]:
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
        finals: list[Final] = []
        async with aclosing(session.events()) as events:
            async for event in events:
                if isinstance(event, Failed):
                    raise AuricleError(f"a recording was not recognised: {event.message}")
                if isinstance(event, Final):
                    finals.append(event)
        text = " ".join(final.text for final in finals if final.text)
        return Said(text, finals[0].language if finals else "", len(pcm) / SAMPLE_RATE)

    def _speaker(self, speech: Speech, pool: PdPool, seed: int) -> Speaker:
        return Speaker(speech, self._stage.settings, self._view, self._encode, pool, seed)
