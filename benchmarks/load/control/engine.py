"""Measures the requests per second of one PD engine process with a very small model.

    python -m benchmarks.load.control.engine [--seconds 10]

The PD worker's engine (vLLM, its scheduler, our plug-in and connector) with a decoder of
one narrow layer. The result is the upper bound of one engine process on any GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.embeddings.keys import tenant_mark
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotTable
from auricle.pd_worker.vllm.engine import Engine, EngineOptions, PlacedWindow
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
_NEW_TOKENS = 4  # a partial with its draft accepted writes about as many
_IN_FLIGHT = 32


@dataclass(frozen=True)
class Measured:
    """Requests per second, and their median time in seconds."""

    per_second: float
    median_seconds: float


async def measure(seconds: float) -> Measured:
    """Run a closed loop of 32 concurrent requests, each with one new window."""
    with tempfile.TemporaryDirectory() as directory:
        write_checkpoint(_SIZE, Path(directory))
        checkpoint = open_checkpoint(Path(directory))
        prompt = PromptFormat(checkpoint)
        layout = SlabLayout(checkpoint.geometry.hidden_size, 4, _WINDOW)
        slab = HostSlab.create_shared(layout, 2 * _IN_FLIGHT)
        options = EngineOptions(
            model=directory, dtype="float32", max_model_len=1024, max_num_seqs=_IN_FLIGHT,
            block_size=32, kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1,
            draft_tokens=8, limit_reuse=True, kv_blocks=None,
        )  # fmt: skip
        engine = await asyncio.to_thread(Engine, options, slab, prompt.audio_token)
        try:
            await _run(engine, slab, prompt, 2.0)
            return await _run(engine, slab, prompt, seconds)
        finally:
            slab.unlink()
            await engine.close()


async def _run(engine: Engine, slab: HostSlab, prompt: PromptFormat, seconds: float) -> Measured:
    table, numbers = SlotTable(slab.count), itertools.count()
    head, tail = prompt.head(""), prompt.tail("English")
    end = time.monotonic() + seconds
    took: list[float] = []

    async def client() -> None:
        while (began := time.monotonic()) < end:
            key = uuid.uuid4().hex + tenant_mark("benchmark")
            slot = table.allocate(key, _WINDOW, partial=True)
            payload = slab.slot(slot.index)[: _WINDOW * slab.layout.row_bytes] * 0
            slab.layout.write(slab.slot(slot.index), key, slot.generation, payload)
            window = PlacedWindow(key, slot.index, slot.generation, _WINDOW)
            await engine.generate(
                f"{key}-{next(numbers)}", head, [window], tail, prompt.stop_tokens, _NEW_TOKENS,
                priority=1, tenant="benchmark",
            )  # fmt: skip
            table.abandon(slot)
            took.append(time.monotonic() - began)

    await asyncio.gather(*(client() for _ in range(_IN_FLIGHT)))
    return Measured(len(took) / seconds, sorted(took)[len(took) // 2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    found = asyncio.run(measure(parser.parse_args().seconds))
    figures = {
        "pd_engine_requests_per_s": found.per_second,
        "pd_engine_request_p50_ms": 1000 * found.median_seconds,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
