"""Models other than Qwen3-ASR in vLLM: audio in parts gives the stock model's tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import EncodeWorkerSettings
from auricle.embeddings.slots import SlotRef
from auricle.workers.encode.main import encoder_for
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.options import EngineOptions
from auricle.workers.pd.vllm.start import chunk_positions
from auricle_testing import recordings
from auricle_testing.checkpoints.gemma import random_gemma4
from auricle_testing.checkpoints.other_models import (
    MOST_TOKENS,
    Listens,
    random_omni,
    random_qwen2_audio,
)
from auricle_testing.checkpoints.whisper import random_english_whisper, random_whisper
from auricle_testing.engines import Bench, landing_slab
from auricle_testing.split_path import GRID, GrowingSegment, encode_worker

pytestmark = [pytest.mark.integration, pytest.mark.deployment, pytest.mark.asyncio]
CPU = EncodeWorkerSettings(dtype="float32", threads=1)
# Offsets of a segment that grows beyond the end of a window.
OFFSETS = (5 * GRID, 12 * GRID, 13 * GRID, 20 * GRID + 77)


async def grown(
    checkpoint: ModelCheckpoint, pcm: Int16
) -> list[tuple[tuple[tuple[str, torch.Tensor], ...], int]]:
    """The windows of a segment at each offset, by key, and the offset."""
    async with encode_worker(checkpoint, encoder_for(checkpoint, CPU)) as worker:
        segment = GrowingSegment(worker, pcm)
        return [((await segment.until(samples)).parts, samples) for samples in OFFSETS]


@pytest.mark.parametrize(
    "make", [random_omni, random_qwen2_audio, random_gemma4, random_whisper, random_english_whisper]
)
async def test_a_growing_segment_gets_the_stock_models_tokens(
    tmp_path: Path, make: Callable[[Path], Listens]
) -> None:
    stock = make(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    slab = landing_slab(checkpoint, "host")
    prompt = PromptFormat(checkpoint)
    options = EngineOptions(
        model=str(tmp_path), dtype="float32", max_num_seqs=4, block_size=32,
        max_model_len=min(512, checkpoint.geometry.max_positions),
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, draft_tokens=8,
        decoder=checkpoint.architecture.decoder, audio=checkpoint.architecture.audio,
        chunk_positions=chunk_positions(checkpoint),
    )  # fmt: skip
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    slab.unlink()
    try:
        pcm = to_int16(recordings.samples("market"))
        placed: dict[str, SlotRef] = {}
        bench = Bench(engine, prompt, {})
        draft: tuple[int, ...] = ()
        for found, samples in await grown(checkpoint, pcm):
            for key, embeddings in found:
                if key not in placed:
                    payload = embeddings.contiguous().view(torch.uint8).numpy().reshape(-1)
                    slab.write(len(placed), key, 1, payload)
                    placed[key] = SlotRef(key, len(placed), 1, len(embeddings))
            bench.windows["market"] = tuple(placed[key] for key, _ in found)
            finished = len(found) - 1
            answer = await bench.decode(
                "market", draft, max_tokens=MOST_TOKENS, reusable_windows=finished
            )
            expected = stock.tokens(to_float(pcm[:samples]), prompt.head(""), prompt.tail(None))
            assert list(answer.tokens) == expected, samples
            draft = answer.tokens[:-1]
        if checkpoint.geometry.encodes_blocks:
            assert answer.cached_tokens > 0
    finally:
        await engine.close()
