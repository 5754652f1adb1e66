"""vLLM against transformers: the same requests, the same tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pytest
import pytest_asyncio

from auricle.audio.pcm import to_int16
from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.encode_worker.encoder import Encoder
from auricle.landing.placed import PlacedWindow
from auricle.pd_worker.transformers.engine import TransformersEngine
from auricle.pd_worker.transformers.options import TransformersOptions
from auricle.pd_worker.vllm.engine import VllmEngine
from auricle.pd_worker.vllm.options import EngineOptions
from auricle.processor.windows import KeyScheme, SegmentAudio
from tests import recordings
from tests.engines import MODEL, Bench, encoded, landing_slab, with_recordings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
GRID = 10_240
GROWING = "kitchen"


@dataclass
class Both:
    """Both engines on one slab; `offsets` are the decodes of a segment as it grows, by name."""

    vllm: Bench[VllmEngine]
    transformers: Bench[TransformersEngine]
    offsets: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Both]:
    checkpoint = open_checkpoint(MODEL)
    slab = landing_slab(checkpoint, "host", 128)
    prompt = PromptFormat(checkpoint)
    options = EngineOptions(
        model=str(MODEL), dtype="float32", max_model_len=1024, max_num_seqs=16, block_size=32,
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, draft_tokens=8,
    )  # fmt: skip
    vllm = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    slab.unlink()
    plain = TransformersOptions("float32", "cpu", 1, 1024, 4, 64)
    transformers = await asyncio.to_thread(TransformersEngine, checkpoint, plain, slab)
    windows = with_recordings(checkpoint, slab)
    slot = sum(map(len, windows.values()))
    encoder = Encoder(checkpoint, "float32", "cpu", threads=1)
    pcm = to_int16(recordings.samples(GROWING))
    audio = SegmentAudio(checkpoint.geometry, KeyScheme(checkpoint.fingerprint, "float32", "grow"))
    audio.push(pcm)
    placed: dict[str, PlacedWindow] = {}
    offsets = []
    for offset in range(GRID, len(pcm), GRID):
        found = encoded(encoder, audio, offset)
        for key, payload in found:
            if key not in placed:
                slab.write(slot, key, 1, np.ascontiguousarray(payload))
                length = payload.nbytes // slab.layout.row_bytes
                placed[key] = PlacedWindow(key, slot, 1, length)
                slot += 1
        offsets.append(f"{GROWING} up to {offset}")
        windows[offsets[-1]] = tuple(placed[key] for key, _ in found)
    yield Both(Bench(vllm, prompt, windows), Bench(transformers, prompt, windows), offsets)
    await asyncio.gather(vllm.close(), transformers.close())


@pytest.mark.parametrize("context", ["", "peter hat"])
@pytest.mark.parametrize("name", recordings.NAMES)
async def test_recordings_get_the_same_tokens(both: Both, name: str, context: str) -> None:
    expected = await both.transformers.decode(name, context=context, max_tokens=200)
    found = await both.vllm.decode(name, context=context, max_tokens=200)
    assert (found.tokens, found.finish) == (expected.tokens, expected.finish)
    assert found.prompt_tokens == expected.prompt_tokens


async def test_a_growing_segment_gets_the_same_tokens_at_every_decode(both: Both) -> None:
    """Each reuses what it has kept, and vLLM verifies the last hypothesis besides."""
    draft: tuple[int, ...] = ()
    reused = 0
    for name in both.offsets:
        finished = len(both.vllm.windows[name]) - 1
        expected = await both.transformers.decode(name, reusable_windows=finished, tenant="grow")
        found = await both.vllm.decode(
            name, draft, reusable_windows=finished, tenant="grow", max_tokens=80
        )
        assert (found.tokens, found.finish) == (expected.tokens, expected.finish), name
        draft = expected.tokens[:-1]
        reused += expected.cached_tokens > 0
    assert reused == sum(len(both.vllm.windows[name]) > 1 for name in both.offsets) - 1


async def test_log_probabilities_agree(both: Both) -> None:
    for name in recordings.NAMES:
        expected = await both.transformers.decode(name, logprobs=True)
        found = await both.vllm.decode(name, logprobs=True)
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)


async def test_a_limit_and_a_forced_prefix_mean_the_same(both: Both) -> None:
    whole = (await both.transformers.decode("station")).tokens
    for cut in (1, 5, len(whole) - 2):
        for bench in (both.vllm, both.transformers):
            assert (await bench.decode("station", max_tokens=cut)).tokens == whole[:cut]
            assert (await bench.decode("station", prefix=whole[:cut])).tokens == whole[cut:]
