"""KV reuse in the PD worker: by block size, with a KV cache that is too small, and by engine.

    python -m benchmarks.kv_reuse

Live sessions take turns on one engine with models/demo, each decoding its 30 s segments every
640 ms; engines are compared in one segment of 60 s, and with models/demo-translate and a text that
grows word by word after four other texts. `hit rate` is the share of reusable prompt
tokens found in the KV cache: tokens that an earlier decode of the segment computed and that have
not changed since.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.geometry import Geometry
from auricle.checkpoints.prompt import PromptFormat
from auricle.checkpoints.text_model import open_text_model
from auricle.config.devices import EngineName, TextEngineName
from auricle.config.settings import PdWorkerSettings, TranslateWorkerSettings
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotRef
from auricle.protocol.annotation import TranslateRequest
from auricle.workers.pd.engine import Engine, GenerateRequest
from auricle.workers.pd.engine_start import engine_kind, text_kind
from auricle_testing import recordings
from auricle_testing.server import ROOT
from benchmarks.harness import Benchmark, LeftOut, main

if TYPE_CHECKING:
    from auricle.workers.translate.prompt import TranslatorPrompt

_MODEL, _TRANSLATOR = ROOT / "models/demo", ROOT / "models/demo-translate"
_CHUNK_FRAMES, _SEGMENT_FRAMES, _WINDOW_FRAMES = 64, 3_000, 800
_TOKENS_PER_SECOND, _ROLLBACK = 2.5, 5
_LONG_SEGMENT_FRAMES = 6_000
_SCARCE = 1.2
_TENANT = "benchmark"


@dataclass
class LiveSession:
    """A session, and the length of its segment so far (mel frames)."""

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
        self,
        engine: Engine,
        slab: HostSlab,
        geometry: Geometry,
        prompt: PromptFormat,
        segment_frames: int,
    ) -> None:
        self._engine, self._slab = engine, slab
        self._geometry, self._prompt = geometry, prompt
        self._segment_frames = segment_frames
        self._noise = np.random.default_rng(0)
        self._generations: dict[int, int] = {}
        self._requests = 0

    async def step(self, session: LiveSession, total: Total) -> None:
        """Run the session's next decode."""
        session.frames += _CHUNK_FRAMES
        if session.frames > self._segment_frames:
            session.frames, session.decoded_frames = _CHUNK_FRAMES, 0
            session.segment += 1
        windows = self._windows(session)
        head = self._prompt.head("")
        said = int(session.frames / 100 * _TOKENS_PER_SECOND)
        tail = (*self._prompt.tail("English"), *[head[0]] * max(0, said - _ROLLBACK))
        finished = session.frames // _WINDOW_FRAMES
        limited = self._engine.capabilities.limited_reuse
        self._requests += 1
        began = time.perf_counter()
        decoded = await self._engine.generate(
            GenerateRequest(
                f"r{self._requests}", head, windows, tail, self._prompt.stop_tokens,
                _ROLLBACK + 2, priority=1, tenant=_TENANT,
                reusable_windows=finished if limited else None,
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
            slot = session.number * _slots(self._segment_frames) + index
            placed.append(self._put(slot, key, frames))
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
async def bench(
    sessions: int, settings: PdWorkerSettings, segment_frames: int = _SEGMENT_FRAMES
) -> AsyncIterator[Bench]:
    """Yield engine and slab, and close them afterwards."""
    kind = engine_kind(settings.engine)
    checkpoint = open_checkpoint(_MODEL)
    geometry = checkpoint.geometry
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES["float32"], geometry.window_embeddings)
    slab = HostSlab.create_shared(layout, sessions * _slots(segment_frames))
    prompt = PromptFormat(checkpoint)
    engine = await asyncio.to_thread(kind.start, settings, checkpoint, slab, prompt.audio_token, "")
    slab.unlink()
    try:
        yield Bench(engine, slab, geometry, prompt, segment_frames)
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


def _slots(segment_frames: int) -> int:
    """Return a session's slots of the slab: the windows of a segment, and the growing one."""
    return segment_frames // _WINDOW_FRAMES + 2


def _settings(**changes: Any) -> PdWorkerSettings:
    return PdWorkerSettings(
        model=_MODEL, dtype="float32", max_model_len=1024, max_requests=16, threads=1,
        draft_tokens=0, **{"block_size": 32} | changes,
    )  # fmt: skip


async def block_sizes(rounds: int) -> None:
    """Measure one session with a sufficient KV cache, by block size."""
    medians: dict[int, float] = {}
    for size in (32, 64, 128):
        async with bench(1, _settings(block_size=size)) as subject:
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
        settings = _settings(kv_blocks=blocks, limit_reuse=limit_reuse, block_size=block_size)
        async with bench(sessions, settings) as subject:
            total = await run(subject, sessions, rounds)
        print(
            f"{sessions} sessions, {blocks} blocks, "
            f"{'finished windows only' if limit_reuse else 'everything'} hashed: "
            f"hit rate {total.cached / total.reusable:.3f}",
            flush=True,
        )


async def engines(rounds: int) -> None:
    """Measure one session with one long segment and a sufficient KV cache, by engine.

    Raises LeftOut without SGLang.
    """
    _need_sglang()
    names: tuple[EngineName, ...] = ("vllm", "sglang")
    found: dict[str, int] = {}
    for name in names:
        async with bench(1, _settings(engine=name), _LONG_SEGMENT_FRAMES) as subject:
            total = await run(subject, 1, rounds)
        found[name] = total.cached
        print(
            f"{name}: {total.cached} of {total.prompt} prompt tokens found "
            f"({total.cached / total.prompt:.3f}), hit rate {total.cached / total.reusable:.3f}",
            flush=True,
        )
    _compare(found)


async def translations() -> None:
    """Measure growing texts behind previous sentences, by engine. Raises LeftOut without SGLang."""
    _need_sglang()
    # SGLang's process imports this module first, and must prepare the import of transformers.
    from auricle.workers.translate.prompt import TranslatorPrompt

    names: tuple[TextEngineName, ...] = ("vllm", "sglang")
    model = open_text_model(_TRANSLATOR)
    prompt = TranslatorPrompt(model)
    found: dict[str, int] = {}
    for name in names:
        settings = TranslateWorkerSettings(
            engine=name, translate_model=_TRANSLATOR, dtype="float32", max_model_len=1024, threads=1
        )
        engine = await asyncio.to_thread(text_kind(name).start, settings, model)
        total = 0
        try:
            for tokens in _growing(prompt):
                decoded = await engine.generate(
                    GenerateRequest(
                        f"r{total}", tokens, (), (), prompt.stop_tokens, 8,
                        priority=1, tenant=_TENANT, reusable_windows=None,
                    )
                )  # fmt: skip
                total += decoded.prompt_tokens
                found[name] = found.get(name, 0) + decoded.cached_tokens
        finally:
            await engine.close()
        print(f"{name}: {found[name]} of {total} prompt tokens of translations found", flush=True)
    _compare(found)


def _growing(prompt: TranslatorPrompt) -> Iterator[tuple[int, ...]]:
    """Yield prompts for the last recording's text, word by word, after the other texts."""
    *before, last = map(recordings.words, recordings.NAMES)
    said = last.split()
    for count in range(1, len(said) + 1):
        source = " ".join(said[:count])
        context = tuple((text, text) for text in before)
        request = TranslateRequest("s", _TENANT, "en", "es", source, context)
        yield prompt.build(request, len(context)).tokens


def _compare(found: dict[str, int]) -> None:
    if found["vllm"]:  # too few rounds fill no block
        print(f"SGLang ÷ vLLM: {found['sglang'] / found['vllm']:.3f}", flush=True)


def _need_sglang() -> None:
    if find_spec("sglang") is None:
        raise LeftOut("SGLang is not installed: install requirements/sglang-cpu.txt")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=94)


BENCHMARK = Benchmark(
    description=__doc__,
    parts={
        "block_sizes": lambda run: asyncio.run(block_sizes(run.arguments.rounds)),
        "scarce": lambda run: asyncio.run(scarce(run.arguments.sessions, run.arguments.rounds, 32)),
        "engines": lambda run: asyncio.run(engines(run.arguments.rounds)),
        "translations": lambda run: asyncio.run(translations()),
    },
    arguments=_arguments,
    sizes=(),
    out=None,
)

if __name__ == "__main__":
    main(BENCHMARK)
