"""The speakers of one process, and the pools that they call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from auricle.audio.pcm import Int16
from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.messages import DecodeReply, DecodeRequest
from auricle.processor.driver import CheckpointView
from auricle.processor.pools import EncodePool, PdPool, Placement
from auricle.profiling.speakers import Speaker, Speech
from auricle.runtime import Runtime
from auricle.settings import ProcessorSettings

_READY_SECONDS = 60.0
_CHUNK_MS = 640


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
        speech = Speech(self._stage.recordings, part.segment_seconds, _CHUNK_MS)
        pool = self._pd if part.decoding else self._no_pd
        seeds = range(part.first, part.first + part.count)
        return [asyncio.create_task(self._speaker(speech, pool, seed).run()) for seed in seeds]

    def _speaker(self, speech: Speech, pool: PdPool, seed: int) -> Speaker:
        return Speaker(speech, self._stage.settings, self._view, self._encode, pool, seed)
