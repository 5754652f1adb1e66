"""Models other than Qwen3-ASR in vLLM: audio in parts gives the stock model's tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch

from auricle.audio.pcm import Int16, to_float, to_int16
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import EncodeWorkerSettings
from auricle.embeddings.layout import KEY_BYTES
from auricle.embeddings.slab import Slab
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


@asynccontextmanager
async def engine_of(
    path: Path, checkpoint: ModelCheckpoint, slab: Slab
) -> AsyncIterator[Bench[VllmEngine]]:
    prompt = PromptFormat(checkpoint)
    options = EngineOptions(
        model=str(path), dtype="float32", max_num_seqs=4, block_size=32,
        max_model_len=min(512, checkpoint.geometry.max_positions),
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, draft_tokens=8,
        decoder=checkpoint.architecture.decoder, audio=checkpoint.architecture.audio,
        chunk_positions=chunk_positions(checkpoint),
    )  # fmt: skip
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    slab.unlink()
    try:
        yield Bench(engine, prompt, {})
    finally:
        await engine.close()


def place(slab: Slab, slot: int, key: str, embeddings: torch.Tensor) -> SlotRef:
    payload = embeddings.contiguous().view(torch.uint8).numpy().reshape(-1)
    slab.write(slot, key, 1, payload)
    return SlotRef(key, slot, 1, len(embeddings))


@pytest.mark.parametrize(
    "make", [random_omni, random_qwen2_audio, random_gemma4, random_whisper, random_english_whisper]
)
async def test_a_growing_segment_gets_the_stock_models_tokens(
    tmp_path: Path, make: Callable[[Path], Listens]
) -> None:
    stock = make(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    slab = landing_slab(checkpoint, "host")
    async with engine_of(tmp_path, checkpoint, slab) as bench:
        pcm = to_int16(recordings.samples("market"))
        placed: dict[str, SlotRef] = {}
        draft: tuple[int, ...] = ()
        for found, samples in await grown(checkpoint, pcm):
            for key, embeddings in found:
                if key not in placed:
                    placed[key] = place(slab, len(placed), key, embeddings)
            bench.windows["market"] = tuple(placed[key] for key, _ in found)
            finished = len(found) - 1
            answer = await bench.decode(
                "market", draft, max_tokens=MOST_TOKENS, reusable_windows=finished
            )
            head, tail = bench.prompt.head(""), bench.prompt.tail(None)
            expected = stock.tokens(to_float(pcm[:samples]), head, tail)
            assert list(answer.tokens) == expected, samples
            draft = answer.tokens[:-1]
        if checkpoint.geometry.encodes_blocks:
            assert answer.cached_tokens > 0


async def test_whisper_attends_to_cached_silence_as_to_the_same_positions_in_one_window(
    tmp_path: Path,
) -> None:
    random_whisper(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    chunk, width = checkpoint.geometry.window_embeddings, checkpoint.geometry.hidden_size
    slab = landing_slab(checkpoint, "host")
    random = torch.Generator().manual_seed(1)
    lengths, levels = (1, 40, chunk // 2), 2
    async with engine_of(tmp_path, checkpoint, slab) as bench:
        slot = 0
        for number in range(levels):
            silence = torch.randn(chunk, width, generator=random)
            cached = place(slab, slot, key_of(slot), silence)
            for length in lengths:
                own = torch.randn(length, width, generator=random)
                spoken = place(slab, slot + 1, key_of(slot + 1), own)
                joined = torch.cat([own, silence[length:]])
                whole = place(slab, slot + 2, key_of(slot + 2), joined)
                bench.windows |= {
                    f"{number} {length} cached": (spoken, cached),
                    f"{number} {length} whole": (whole,),
                }
                slot += 2
            slot += 1
        names = list(bench.windows)
        answers = await asyncio.gather(
            *(bench.decode(name, max_tokens=MOST_TOKENS, logprobs=True) for name in names)
        )
        by_name = dict(zip(names, answers, strict=True))
        for name in names[::2]:
            cached_answer = by_name[name]
            whole_answer = by_name[name.replace("cached", "whole")]
            assert cached_answer.tokens == whole_answer.tokens, name
            assert cached_answer.logprobs == pytest.approx(whole_answer.logprobs, abs=1e-4), name


def key_of(slot: int) -> str:
    return f"{slot:0{2 * KEY_BYTES}x}"
