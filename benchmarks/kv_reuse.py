"""KV reuse in the PD worker, by block size, and with a KV cache that is too small.

    python -m benchmarks.kv_reuse

Many live sessions take turns on one vLLM engine with models/demo, each decoding its 30 s segments
every 640 ms. `hit rate` is the share of reusable prompt tokens found in the KV cache: tokens that
an earlier decode of the segment computed and that have not changed since.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.geometry import Geometry
from auricle.checkpoints.prompt import PromptFormat
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotRef
from auricle.workers.pd.engine import GenerateRequest
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.options import EngineOptions
from auricle_testing.server import ROOT
from benchmarks.harness import Benchmark, main

_MODEL = ROOT / "models/demo"
_CHUNK_FRAMES, _SEGMENT_FRAMES, _WINDOW_FRAMES = 64, 3_000, 800
_TOKENS_PER_SECOND, _ROLLBACK = 2.5, 5
_SLOTS = 5  # per session: windows of a segment, and the growing one
_SCARCE = 1.2
_TENANT = "benchmark"


@dataclass
class LiveSession:
    """A session: its slots of the slab, and the length of its segment (mel frames)."""

    number: int
    frames: int
    segment: int = 0
    decoded_frames: int = 0


@dataclass
class Total:
    """Sums over all decodes."""

    prompt: int = 0
    cached: int = 0
    reusable: int = 0
    seconds: list[float] = field(default_factory=list)


class Bench:
    """An engine and the sessions that use it."""

    def __init__(
        self, engine: VllmEngine, slab: HostSlab, geometry: Geometry, prompt: PromptFormat
    ) -> None:
        self._engine, self._slab = engine, slab
        self._geometry, self._prompt = geometry, prompt
        self._noise = np.random.default_rng(0)
        self._generations: dict[int, int] = {}
        self._requests = 0

    async def step(self, session: LiveSession, total: Total) -> None:
        """Run the session's next decode."""
        session.frames += _CHUNK_FRAMES
        if session.frames > _SEGMENT_FRAMES:
            session.frames, session.decoded_frames = _CHUNK_FRAMES, 0
            session.segment += 1
        windows = self._windows(session)
        head = self._prompt.head("")
        said = int(session.frames / 100 * _TOKENS_PER_SECOND)
        tail = (*self._prompt.tail("English"), *[head[0]] * max(0, said - _ROLLBACK))
        finished = session.frames // _WINDOW_FRAMES
        self._requests += 1
        began = time.perf_counter()
        decoded = await self._engine.generate(
            GenerateRequest(
                f"r{self._requests}", head, windows, tail, self._prompt.stop_tokens,
                _ROLLBACK + 2, priority=1, tenant=_TENANT, reusable_windows=finished,
            )
        )  # fmt: skip
        total.seconds.append(time.perf_counter() - began)
        total.prompt += decoded.prompt_tokens
        total.cached += decoded.cached_tokens
        known = session.decoded_frames // _WINDOW_FRAMES
        if session.decoded_frames:
            total.reusable += len(head) + known * self._geometry.window_embeddings
        session.decoded_frames = session.frames

    def _windows(self, session: LiveSession) -> list[SlotRef]:
        placed = []
        for index, start in enumerate(range(0, session.frames, _WINDOW_FRAMES)):
            frames = min(_WINDOW_FRAMES, session.frames - start)
            # The content of a key: session, segment, window, and its length so far.
            content = f"{session.number:08x}{session.segment:08x}{index:08x}{frames:08x}"
            key = content + tenant_mark(_TENANT)
            placed.append(self._put(session.number * _SLOTS + index, key, frames))
        return placed

    def _put(self, slot: int, key: str, frames: int) -> SlotRef:
        length, layout = self._geometry.embeddings(frames), self._slab.layout
        generation = self._generations.get(slot, 0)
        if self._slab.mismatch(slot, key, generation, length) is not None:
            generation += 1
            self._generations[slot] = generation
            values = self._noise.standard_normal((length, layout.width)).astype(np.float32)
            payload = values.view(np.uint8).reshape(-1)
            self._slab.write(slot, key, generation, payload)
        return SlotRef(key, slot, generation, length)


@asynccontextmanager
async def bench(sessions: int, options: EngineOptions) -> AsyncIterator[Bench]:
    """Yield engine and slab, and close them afterwards."""
    checkpoint = open_checkpoint(_MODEL)
    geometry = checkpoint.geometry
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES["float32"], geometry.window_embeddings)
    slab = HostSlab.create_shared(layout, sessions * _SLOTS)
    prompt = PromptFormat(checkpoint)
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    slab.unlink()
    try:
        yield Bench(engine, slab, geometry, prompt)
    finally:
        await engine.close()


async def run(subject: Bench, sessions: int, rounds: int) -> Total:
    """Run sessions in turn, each at a different position of its segment."""
    live = [LiveSession(i, _start(i, sessions)) for i in range(sessions)]
    total = Total()
    for _ in range(rounds):
        for session in live:
            await subject.step(session, total)
    return total


def _useful_blocks(sessions: int, block_size: int) -> int:
    """Return the largest number of blocks that the next decodes of all sessions can reuse."""
    geometry = open_checkpoint(_MODEL).geometry
    head = len(PromptFormat(open_checkpoint(_MODEL)).head(""))
    chunks = _SEGMENT_FRAMES // _CHUNK_FRAMES

    def blocks(chunk: int) -> int:
        finished = chunk % chunks * _CHUNK_FRAMES // _WINDOW_FRAMES
        return (head + finished * geometry.window_embeddings) // block_size

    return max(
        sum(blocks(_start(i, sessions) // _CHUNK_FRAMES + now) for i in range(sessions))
        for now in range(chunks)
    )


def _start(session: int, sessions: int) -> int:
    """Return the mel frames of a session at the beginning: each is elsewhere in its segment."""
    return session * _SEGMENT_FRAMES // sessions // _CHUNK_FRAMES * _CHUNK_FRAMES


def _options(**changes: object) -> EngineOptions:
    base = EngineOptions(
        model=str(_MODEL), dtype="float32", max_model_len=1024, max_num_seqs=16, block_size=32,
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


async def block_sizes(rounds: int) -> None:
    """Measure one session with a sufficient KV cache, by block size."""
    medians: dict[int, float] = {}
    for size in (32, 64, 128):
        async with bench(1, _options(block_size=size)) as subject:
            await run(subject, 1, 5)
            total = await run(subject, 1, rounds)
        medians[size] = statistics.median(total.seconds)
        print(
            f"block size {size}: hit rate {total.cached / total.reusable:.3f}, "
            f"{total.cached / total.prompt:.3f} of all prompt tokens, "
            f"time per decode {medians[size] / medians[32]:.2f} of that at 32",
            flush=True,
        )


async def scarce(sessions: int, rounds: int, block_size: int) -> None:
    """Measure with KV for 1.2 times the reusable blocks, hashing all blocks or only those."""
    useful = _useful_blocks(sessions, block_size)
    for limit_reuse in (False, True):
        blocks = int(useful * _SCARCE) + 1  # vLLM keeps one for itself
        options = _options(kv_blocks=blocks, limit_reuse=limit_reuse, block_size=block_size)
        async with bench(sessions, options) as subject:
            total = await run(subject, sessions, rounds)
        print(
            f"{sessions} sessions, {blocks} blocks, "
            f"{'finished windows only' if limit_reuse else 'everything'} hashed: "
            f"hit rate {total.cached / total.reusable:.3f}",
            flush=True,
        )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=94)


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "block_sizes": lambda run: asyncio.run(block_sizes(run.arguments.rounds)),
        "scarce": lambda run: asyncio.run(scarce(run.arguments.sessions, run.arguments.rounds, 32)),
    },
    arguments=_arguments,
    sizes=(),
    out=None,
)

if __name__ == "__main__":
    main(BENCHMARK)
