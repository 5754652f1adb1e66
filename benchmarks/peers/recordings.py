"""Whole recordings: speed and word errors of each configuration, on all cores."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import psutil

from benchmarks.load.plan import SessionPlan
from benchmarks.load.protocols import Target, transcriptions
from benchmarks.load.record import Record
from benchmarks.load.usage import measured
from benchmarks.peers.figures import OURS
from benchmarks.peers.servers import BATCH, CORES, PEERS, WHISPER, WORK, Weights, running
from benchmarks.real_speech.corpus import Spoken
from benchmarks.real_speech.peers import Process, process
from benchmarks.real_speech.scoring import scored
from benchmarks.sessions import limited

_SOFTER = np.float32(0.98)  # times the amplitude
Row = dict[str, Any]
# Transcribes recordings; returns their texts.
Transcribe = Callable[[Sequence[Spoken]], Sequence[str]]
FASTER_WHISPER: dict[str, dict[str, Any]] = {
    f"faster-whisper{', batched' if batch else ''}, {compute_type}, {threads} thread"
    + ("s" if threads > 1 else " × 2 processes"): {
        "compute_type": compute_type,
        "cpu_threads": threads,
        "batch": batch,
        "beam_size": 5,
    }
    for batch, compute_type, threads in product((0, BATCH), ("int8", "float32"), (CORES, 1))
}
# Settings of auricle that its configuration does not have.
AURICLE = {
    OURS: (),
    f"{OURS}, vLLM": ("--PdWorker.engine=vllm",),
}
CONFIGURATIONS = (
    *AURICLE,
    *(name for name, peer in PEERS.items() if not peer.live),
    *FASTER_WHISPER,
)


def supported(configuration: str, model: str) -> bool:
    """Return whether a configuration can serve a model."""
    if configuration in PEERS:
        return model in PEERS[configuration].models
    return configuration == OURS or model in WHISPER


def measure(
    configuration: str, weights: Weights, some: Sequence[Spoken], repeats: int, *settings: str
) -> Iterator[Row]:
    """Yield a row for each repeat; the first recording is a warm-up. Raises RuntimeError.

    Each repeat is softer than the one before: a cache by content finds nothing.
    """
    with _ready(configuration, weights, *settings) as (transcribe, roots, command):
        transcribe(some[:1])
        for _ in range(repeats):
            some = [softer(one) for one in some]
            with ExitStack() as stack:
                usages = [stack.enter_context(measured(root)) for root in roots]
                began = time.monotonic()
                texts = transcribe(some)
                wall = time.monotonic() - began
            errors = (
                scored(one.text, text, one.language) for one, text in zip(some, texts, strict=True)
            )
            yield {
                "command": command,
                "audio_seconds": sum(one.seconds for one in some),
                "wall_seconds": wall,
                "cpu_seconds": sum(usage.total_cpu_seconds for usage in usages),
                "peak_mib": sum(usage.peak_mib for usage in usages),
                "errors": {
                    one.name: (found.wrong, found.words)
                    for one, found in zip(some, errors, strict=True)
                },
            }


def softer(spoken: Spoken) -> Spoken:
    """Return a softer copy, which no cache by content has."""
    return replace(spoken, pcm=(spoken.pcm * _SOFTER).astype(np.int16))


@contextmanager
def _ready(
    configuration: str, weights: Weights, *settings: str
) -> Iterator[tuple[Transcribe, list[psutil.Process], str]]:
    if configuration not in FASTER_WHISPER:
        name = OURS if configuration in AURICLE else configuration
        with running(name, weights, *settings, *AURICLE.get(configuration, ())) as server:
            yield partial(posted, server.target), [server.process], server.command
        return
    options = FASTER_WHISPER[configuration]
    count = CORES // options["cpu_threads"]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                process("faster_whisper", weights.ctranslate2, WORK / f"heard-{number}", options)
            )
            for number in range(count)
        ]
        roots = [psutil.Process(one.pid) for one in processes]
        yield partial(_heard, processes), roots, f"WhisperModel, {options}"


def posted(target: Target, some: Sequence[Spoken]) -> list[str]:
    """Upload recordings, two for each core at a time, so that a server has always one to begin."""

    async def upload() -> list[str]:
        async with transcriptions.connection() as client:

            async def one(spoken: Spoken) -> str:
                plan = SessionPlan(spoken.name, spoken.pcm, (), ())
                record = Record(plan, spoken.seconds, time.monotonic())
                await transcriptions.upload(client, target, record)
                return record.text

            return await limited(2 * CORES, some, one)

    return asyncio.run(upload())


def _heard(processes: Sequence[Process], some: Sequence[Spoken]) -> list[str]:
    """Give each process every n-th recording, the longest first."""
    order = np.argsort([-one.seconds for one in some], kind="stable")
    texts = [""] * len(some)

    def share(number: int) -> None:
        for at in order[number :: len(processes)]:
            texts[at] = processes[number].hear(some[at].pcm, "en", None).text

    with ThreadPoolExecutor(len(processes)) as pool:
        list(pool.map(share, range(len(processes))))
    return texts
