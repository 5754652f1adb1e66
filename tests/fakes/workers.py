"""A session over pools that answer from a script: helpers for the session tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import ProcessorSettings
from auricle.core.errors import AuricleError
from auricle.load.chunk_load import ChunkLoad
from auricle.processor.annotators.words import SessionWords
from auricle.processor.driver import CheckpointView, SessionDriver
from auricle.processor.pools import EncodePool, PdPool
from auricle.processor.recognizer import Recognizer
from auricle.protocol.recognition import (
    DecodeReply,
    DecodeRequest,
    EncodeReply,
    EncodeRequest,
    WindowRef,
)
from auricle.protocol.sessions import OpenSession, ResumePoint, WholeAudio
from auricle_testing.server import ROOT

GRID = 10_240
CHECKPOINT = open_checkpoint(ROOT / "models/demo")
PROMPT = PromptFormat(CHECKPOINT)
VIEW = CheckpointView(CHECKPOINT.geometry, PROMPT, CHECKPOINT.fingerprint)


def ids(text: str) -> tuple[int, ...]:
    return tuple(PROMPT._tokenizer.encode(text).ids)


class ScriptedWorkers:
    """Stands in for both pools' endpoints: encodes anything, decodes to the text of `says`."""

    def __init__(self, says: Callable[[DecodeRequest], str]) -> None:
        self.says = says
        self.encodes: list[EncodeRequest] = []
        self.decodes: list[DecodeRequest] = []
        self.faults: list[AuricleError] = []
        self.asked = asyncio.Event()  # for a decode
        self.asked_to_encode = asyncio.Event()
        self.hold: asyncio.Event | None = None  # partial decodes and encoding ahead wait for it
        self.logprob: float | None = None  # the same for each token; None: it identifies the decode
        self.used: list[int] = []

    async def usable(self, seconds: float, avoid: frozenset[int] = frozenset()) -> list[int]:
        return [i for i in (1, 2) if i not in avoid] or [1, 2]

    def suspected(self, instance: int) -> bool:
        return False

    async def call(self, message: object, reply: object, instance: int, seconds: float) -> object:
        await asyncio.sleep(0)
        if isinstance(message, EncodeRequest):
            self.encodes.append(message)
            self.asked_to_encode.set()
            if self.hold is not None and message.ahead:
                await self.hold.wait()
            refs = tuple(
                WindowRef(w.key, "f", "float32", 1, "a", b"", 0, 1, 0, "DRAM", 0, 0, 1, 1)
                for w in message.windows
            )
            return EncodeReply(refs, len(refs))
        assert isinstance(message, DecodeRequest)
        self.decodes.append(message)
        self.asked.set()
        self.used.append(instance)
        if self.faults:
            raise self.faults.pop(0)
        if self.hold is not None and not message.final:
            await self.hold.wait()
        answer = ids(self.says(message))
        forced = len(message.tail) - len(PROMPT.tail(None))
        # By default, the value of each token identifies the decode that generated it.
        each = -0.01 * len(self.decodes) if self.logprob is None else self.logprob
        logprobs = (each,) * len(answer[forced:]) if message.logprobs else ()
        return DecodeReply(answer[forced:], "stop", 100, 50, 10, logprobs=logprobs)


def session(
    workers: ScriptedWorkers,
    resume: ResumePoint | None = None,
    load: ChunkLoad | None = None,
    chunk_ms: int = 640,
    partials: bool = True,
    ahead_turns: asyncio.Semaphore | None = None,
    whole: WholeAudio | None = None,
    logprobs: bool = False,
    grid_words: bool = False,
    words: SessionWords | None = None,
    context: str = "",
    languages: tuple[str, ...] = (),
    **settings: object,
) -> SessionDriver:
    values = {"pause_after_seconds": 100, "max_segment_seconds": 120, **settings}
    configured = ProcessorSettings(**values)  # type: ignore[arg-type]
    recognizer = Recognizer(
        "s",
        "t",
        EncodePool(workers, 60.0, 3),  # type: ignore[arg-type]
        PdPool(workers, 60.0, 3),  # type: ignore[arg-type]
    )
    opened = OpenSession(
        *("s", "t", None, context, chunk_ms),
        partials=partials,
        resume=resume or ResumePoint(),
        whole=whole,
        logprobs=logprobs,
        grid_words=grid_words,
        words=words is not None,
        languages=languages,
    )
    return SessionDriver(
        *(opened, configured, VIEW, recognizer, load or ChunkLoad(60.0)),
        ahead_turns=ahead_turns,
        on_segment=None if words is None else words.ended,
    )


def noise(samples: int, seed: int = 0) -> bytes:
    values = np.random.default_rng(seed).integers(-3_000, 3_000, samples)
    return values.astype("<i2").tobytes()


def counting(request: DecodeRequest) -> str:
    """One word per second of audio."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    count = sum(w.length for w in request.windows) // 8
    return "language English<asr_text>" + " ".join(words[:count])


async def feed(subject: SessionDriver, total: int, piece: int = GRID) -> list[object]:
    """Push `total` samples piece by piece, then the end; returns all events."""
    events = subject.events()
    got: list[object] = [await anext(events)]
    data = noise(total)
    for start in range(0, total, piece):
        end = min(start + piece, total)
        await subject.push(start, data[2 * start : 2 * end], 1.0)
        if end // GRID > start // GRID:
            got.append(await anext(events))
    subject.end(total)
    got += [event async for event in events]
    return got
