"""A real session in the benchmark's process, on the server's real workers, decode by decode.

The frontend's and the processor's code is unmodified. This module records values that a WebSocket
hides: every decode's prompt, audio and tokens. A packet is sent once the one before it has been
handled, so that no grid point is skipped, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from auricle.audio.pcm import Int16, to_int16
from auricle.audio.voice_activity import VoiceActivityModel, VoiceState
from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import FrontendSettings, ProcessorSettings
from auricle.dynamo import Runtime
from auricle.frontend.audio.chunks import AudioChunk
from auricle.frontend.audio.endpointing import Endpointer, EndpointingOptions
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import DecodeTask, Recognizer
from auricle.processor.session.windows import KeyScheme, SegmentAudio
from auricle.processor.usage import UsageMeter
from auricle.protocol.recognition import DecodeReply
from auricle.protocol.sessions import OpenSession, SegmentFinal, SegmentPartial
from auricle_testing.feed import CHUNK_MS

_SETTLE_SECONDS = 60.0
_NEVER_SLOW = 1e9  # no chunk is skipped, however long it takes
_POLL_SECONDS = 0.001
_PACKET = 1_600  # 100 ms, as a microphone sends them


@dataclass(frozen=True)
class Decode:
    """One decode: its segment's first `offset` samples, the prompt and the answer."""

    offset: int
    task: DecodeTask
    reply: DecodeReply


@dataclass
class Heard:
    """A segment: its finished text, and every decode on the way, the final one last."""

    final: SegmentFinal
    pcm: Int16
    decodes: list[Decode]
    partials: list[tuple[int, SegmentPartial]]  # with the session sample sent by then
    sent: int  # session samples sent when the final came


@dataclass(frozen=True)
class Bench:
    """The processor's parts, calling a server's workers."""

    settings: ProcessorSettings
    view: CheckpointView
    encode_pool: EncodePool
    pd_pool: PdPool
    vad: VoiceActivityModel

    def recognizer(self, name: str, tenant: str) -> _Recording:
        """Return a recognizer for one session."""
        return _Recording(name, tenant, self.encode_pool, self.pd_pool)


class _Recording(Recognizer):
    """A recognizer that remembers its decodes."""

    def __init__(self, *arguments: str | EncodePool | PdPool) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.decodes: list[Decode] = []

    async def decode(
        self, audio: SegmentAudio, samples: int, task: DecodeTask, usage: UsageMeter
    ) -> DecodeReply:
        reply = await super().decode(audio, samples, task, usage)
        self.decodes.append(Decode(samples, task, reply))
        return reply


@asynccontextmanager
async def bench(model: Path, discovery: Path, settings: dict[str, float]) -> AsyncIterator[Bench]:
    """Connect to the workers; `settings` are values of the configuration section `Processor`."""
    os.environ.setdefault("DYN_LOG", "error,dynamo_runtime=off")
    processor = ProcessorSettings(model=model, discovery_path=discovery, **settings)
    checkpoint = open_checkpoint(model)
    runtime = Runtime(processor)
    encode_pool = EncodePool(runtime.client("encode_worker", "generate"), 20.0, 2)
    pd_pool = PdPool(runtime.client("pd_worker", "generate"), 60.0, 2)
    await encode_pool.ready(30)
    await pd_pool.ready(30)
    view = CheckpointView(checkpoint.geometry, PromptFormat(checkpoint), checkpoint.fingerprint)
    yield Bench(processor, view, encode_pool, pd_pool, VoiceActivityModel())
    runtime.close()


@dataclass
class _Run:
    """One session in progress."""

    session: SessionDriver
    recognizer: _Recording
    pcm: Int16
    segments: list[Heard] = field(default_factory=list)
    partials: list[tuple[int, SegmentPartial]] = field(default_factory=list)
    counted: int = 0

    def event(self, event: object, sent: int) -> None:
        """Add an event to the segment that it belongs to."""
        if isinstance(event, SegmentPartial):
            self.partials.append((sent, event))
        elif isinstance(event, SegmentFinal):
            decodes = self.recognizer.decodes[self.counted :]
            end = event.resume.segment_start  # in samples; the event's times are rounded
            pcm = self.pcm[end - decodes[-1].offset : end]
            self.counted = len(self.recognizer.decodes)
            self.segments.append(Heard(event, pcm, decodes, self.partials, sent))
            self.partials = []


async def listen(bench: Bench, name: str, samples: np.ndarray) -> list[Heard]:
    """Return all segments of a recording, live, with the frontend's voice activity detection."""
    defaults = FrontendSettings()
    gate = Endpointer(
        EndpointingOptions(defaults.speech_threshold, defaults.min_silence_ms, defaults.pre_roll_ms)
    )
    pcm, voice = to_int16(samples), VoiceState()
    recognizer = bench.recognizer(name, "benchmark")
    session = SessionDriver(
        OpenSession(name, "benchmark", None, "", CHUNK_MS),
        bench.settings,
        bench.view,
        recognizer,
        ChunkLoad(_NEVER_SLOW),
    )
    run = _Run(session, recognizer, pcm)
    events = session.events()
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    for at in range(0, len(pcm), _PACKET):
        packet = pcm[at : at + _PACKET]
        frames = voice.frames(packet)
        (found,) = bench.vad.probabilities([(voice, frames)])
        for event in gate.push(packet, found.tolist()):
            if isinstance(event, AudioChunk):
                await session.push(event.start, event.pcm.tobytes(), 10.0, event.boundary)
                waiting = await _settle(run, events, waiting, at + len(packet))
    for event in gate.finish(_rest(bench, voice)):
        if isinstance(event, AudioChunk):
            await session.push(event.start, event.pcm.tobytes(), 10.0, event.boundary)
            waiting = await _settle(run, events, waiting, len(pcm))
    session.end(len(pcm))
    run.event(await waiting, len(pcm))
    async for last in events:
        run.event(last, len(pcm))
    return run.segments


def _rest(bench: Bench, voice: VoiceState) -> list[float]:
    frames = voice.frames(np.zeros(0, np.int16), last=True)
    return bench.vad.probabilities([(voice, frames)])[0].tolist() if len(frames) else []


async def _settle(run: _Run, events: object, waiting: object, sent: int) -> asyncio.Future[object]:
    """Wait until the session has nothing left to do; return the wait for its next event."""
    async with asyncio.timeout(_SETTLE_SECONDS):
        while True:
            if waiting.done():
                run.event(waiting.result(), sent)
                waiting = asyncio.ensure_future(anext(events))
            elif run.session.idle:
                return waiting
            await asyncio.sleep(_POLL_SECONDS)


async def decode_once(bench: Bench, heard: Heard) -> tuple[tuple[int, ...], str]:
    """Decode the whole segment once, with its context and nothing forced: (tokens, text)."""
    scheme = KeyScheme(bench.view.fingerprint, bench.settings.dtype, "benchmark")
    audio = SegmentAudio(bench.view.geometry, scheme)
    audio.push(heard.pcm)
    recognizer = bench.recognizer("once", "benchmark")
    last = heard.decodes[-1]
    prompt = bench.view.prompt
    limit = int(bench.settings.max_tokens_per_second * last.offset / 16_000) + 16
    task = DecodeTask(last.task.head, prompt.tail(None), limit, final=True)
    try:
        reply = await recognizer.decode(audio, last.offset, task, UsageMeter())
    finally:
        recognizer.close()
    return reply.tokens, prompt.answer(reply.tokens, None)[1]
