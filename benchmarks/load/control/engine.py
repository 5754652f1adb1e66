"""Measures the answers per core of one PD engine process with a very small model.

    python -m benchmarks.load.control.engine [--seconds 10]

The PD worker's engine (vLLM, its scheduler, our plug-in and connector) with a decoder of
one narrow layer. The result is the upper bound of one engine process on any GPU. Requests have
the shape of live sessions: a prompt of 400 tokens, whose finished windows are in the KV cache
(some 300 tokens), a new partial window, and a draft that is right except for its end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import psutil

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.embeddings.layout import SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.workers.pd.vllm.engine import (
    Decoded,
    EngineOptions,
    GenerateRequest,
    SlotRef,
    VllmEngine,
)
from benchmarks.checkpoints import Size, write_checkpoint

_SIZE = Size(
    audio={
        "d_model": 32, "encoder_layers": 1, "num_hidden_layers": 1, "output_dim": 32,
        "encoder_attention_heads": 1, "encoder_ffn_dim": 32, "downsample_hidden_size": 8,
    },
    text={
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 32,
    },
    vocabulary=8192,
    words=3000,
)  # fmt: skip
_WINDOW = 104
_FINISHED = 3  # windows of each session that its earlier decodes left in the KV cache
_PROMPT = 400
_NEW_TOKENS = 8
_DRAFTED = 6  # of them; the rest is a new token and the end
_IN_FLIGHT = 32
_WARM_SECONDS = 3.0


class Bench:
    """An engine, and sessions that each decode again and again."""

    def __init__(self, engine: VllmEngine, slab: HostSlab, prompt: PromptFormat) -> None:
        self._engine, self._prompt = engine, prompt
        self._head, self._tail = prompt.head(""), prompt.tail("English")
        self._partial = _PROMPT - len(self._head) - len(self._tail) - _FINISHED * _WINDOW
        self._slab = slab
        self._generation = itertools.count(1)
        slots = range(0, slab.count, _FINISHED + 1)
        # One session per request in flight, because each waits for its answer.
        self._sessions = [
            [self._place(slot + i, _WINDOW) for i in range(_FINISHED)] for slot in slots
        ]
        self._draft: tuple[int, ...] = ()
        self._answer: tuple[int, ...] = ()
        self._processes = [psutil.Process(), *psutil.Process().children(recursive=True)]

    def _place(self, slot: int, length: int) -> SlotRef:
        """Write a window of zeros, so that all sessions have the same content and answer."""
        key = uuid.uuid4().hex + tenant_mark("benchmark")
        generation = next(self._generation)
        payload = np.zeros(length * self._slab.layout.row_bytes, np.uint8)
        self._slab.write(slot, key, generation, payload)
        return SlotRef(key, slot, generation, length)

    async def warm_up(self) -> None:
        """Fill the KV cache with the finished windows, and get the answer that drafts repeat."""
        self._answer = (await self._decode(0)).tokens
        self._draft = self._answer[:_DRAFTED]
        await self.measure(_WARM_SECONDS)

    async def measure(self, seconds: float) -> dict[str, float]:
        """Run a closed loop of all sessions, and return the figures.

        CPU is of the process that calls the engine (`api`) and of vLLM's engine process (`core`):
        per request, and as a share of a core (`busy`).

        Raises RuntimeError if an answer differs from the first decode's, which had no draft.
        """
        end = time.monotonic() + seconds
        took: list[float] = []
        answers: list[Decoded] = []

        async def client(session: int) -> None:
            while (began := time.monotonic()) < end:
                answers.append(await self._decode(session))
                took.append(time.monotonic() - began)

        began, cpu = time.monotonic(), self._cpu_seconds()
        await asyncio.gather(*(client(number) for number in range(len(self._sessions))))
        wall = time.monotonic() - began
        api, core = (now - then for now, then in zip(self._cpu_seconds(), cpu, strict=True))
        if wrong := [a.tokens for a in answers if a.tokens != self._answer]:
            raise RuntimeError(f"{len(wrong)} answers such as {wrong[0]} are not {self._answer}")
        count = len(took)
        return {
            "pd_engine_requests_per_s": count / wall,
            "pd_engine_requests_per_core_s": count / (api + core),
            "pd_engine_request_p50_ms": 1000 * statistics.median(took),
            "pd_engine_api_cpu_ms": 1000 * api / count,
            "pd_engine_core_cpu_ms": 1000 * core / count,
            "pd_engine_api_busy": api / wall,
            "pd_engine_core_busy": core / wall,
        }

    async def _decode(self, session: int) -> Decoded:
        finished = self._sessions[session]
        partial = self._place(finished[-1].slot + 1, self._partial)
        return await self._engine.generate(
            GenerateRequest(
                partial.key,
                head=self._head,
                windows=[*finished, partial],
                tail=self._tail,
                stop_tokens=self._prompt.stop_tokens,
                max_tokens=_NEW_TOKENS,
                priority=1,
                tenant="benchmark",
                draft=self._draft,
                reusable_windows=_FINISHED,
            )
        )

    def _cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds of this process and of vLLM's."""
        api, *core = (sum(p.cpu_times()[:2]) for p in self._processes)
        return api, sum(core)


@asynccontextmanager
async def started() -> AsyncIterator[Bench]:
    """Start an engine and warm it up."""
    with tempfile.TemporaryDirectory() as directory:
        write_checkpoint(_SIZE, Path(directory))
        checkpoint = open_checkpoint(Path(directory))
        prompt = PromptFormat(checkpoint)
        layout = SlabLayout(checkpoint.geometry.hidden_size, 4, _WINDOW)
        slab = HostSlab.create_shared(layout, (_FINISHED + 1) * _IN_FLIGHT)
        options = EngineOptions(
            model=directory, dtype="float32", max_model_len=1024, max_num_seqs=_IN_FLIGHT,
            block_size=32, kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1,
            draft_tokens=8, limit_reuse=True, kv_blocks=None,
        )  # fmt: skip
        engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
        try:
            bench = Bench(engine, slab, prompt)
            await bench.warm_up()
            yield bench
        finally:
            slab.unlink()
            await engine.close()


async def _once(seconds: float) -> None:
    async with started() as bench:
        print(json.dumps(await bench.measure(seconds)))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    asyncio.run(_once(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
