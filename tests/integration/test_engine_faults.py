"""vLLM's own process on a failing device reports the reason and ends. Errors are injected."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import ProcessFailed, WorkerUnavailable
from auricle.embeddings.layout import ITEM_BYTES, SlabLayout, tenant_mark
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.slots import SlotRef
from auricle.workers.pd.engine import Decoded, GenerateRequest
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.options import EngineOptions, PassOptions
from auricle_testing.server import ROOT

pytestmark = pytest.mark.integration
MODEL = ROOT / "models/demo"
TENANT = "test"
# vLLM grants a failed engine five seconds for its cleanup.
TIDY_SECONDS = 5.0


@pytest.fixture(scope="module")
def prompt() -> PromptFormat:
    return PromptFormat(open_checkpoint(MODEL))


@pytest.fixture
def slab() -> Iterator[HostSlab]:
    geometry = open_checkpoint(MODEL).geometry
    layout = SlabLayout(geometry.hidden_size, ITEM_BYTES["float32"], geometry.window_embeddings)
    made = HostSlab.create_shared(layout, 4)
    yield made
    made.unlink()


@pytest.fixture(scope="module")
def arguments() -> Any:
    """The module. vLLM takes seconds to import, and every pytest process collects this file."""
    from auricle.workers.pd.vllm import arguments

    return arguments


@pytest.fixture(scope="module")
def faulty() -> Any:
    """The module of the failing devices, which also imports vLLM."""
    from tests.integration import faulty_worker

    return faulty_worker


@asynccontextmanager
async def engine_on(
    device: type, slab: HostSlab, prompt: PromptFormat, patch: pytest.MonkeyPatch
) -> AsyncIterator[VllmEngine]:
    """An engine without drafts."""
    from auricle.workers.pd.vllm import arguments

    patch.setattr(arguments, "WORKER", f"{device.__module__}.{device.__name__}")
    options = EngineOptions(
        model=str(MODEL), dtype="float32", max_model_len=512, max_num_seqs=4, block_size=32,
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, kv_blocks=64,
    )  # fmt: skip
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    try:
        yield engine
    finally:
        await engine.close()


async def decode(engine: VllmEngine, slab: HostSlab, prompt: PromptFormat, name: str) -> Decoded:
    """Decode a window of zeros."""
    key, length = uuid.uuid4().hex + tenant_mark(TENANT), slab.layout.max_length
    slab.write(0, key, 1, np.zeros(slab.layout.payload_bytes(length), np.uint8))
    return await engine.generate(
        GenerateRequest(
            name, prompt.head(""), [SlotRef(key, 0, 1, length)], prompt.tail(None),
            prompt.stop_tokens, 8, priority=1, tenant=TENANT, draft=(5, 6, 7), logprobs=True,
        )
    )  # fmt: skip


@pytest.mark.deployment
async def test_memory_that_runs_out_while_vllm_loads_is_one_sentence(
    faulty: Any, slab: HostSlab, prompt: PromptFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProcessFailed) as failed:
        async with engine_on(faulty.FullDevice, slab, prompt, monkeypatch):
            pass
    assert str(failed.value) == (
        "vLLM cannot start: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 79.11 GiB of which 1.50 GiB is free."
    )


@pytest.mark.deployment
async def test_an_engine_whose_device_fails_for_good_ends_at_once(
    faulty: Any, slab: HostSlab, prompt: PromptFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine_on(faulty.FailingDevice, slab, prompt, monkeypatch) as engine:
        before = await decode(engine, slab, prompt, "works")
        # The draft is useless here and does no harm.
        assert before.steps == len(before.tokens) == len(before.logprobs)
        children = psutil.Process().children(recursive=True)
        (process,) = [child for child in children if "EngineCore" in child.name()]
        async with asyncio.timeout(TIDY_SECONDS):
            with pytest.raises(WorkerUnavailable):
                await decode(engine, slab, prompt, faulty.FAILS)
            await asyncio.to_thread(process.wait, TIDY_SECONDS)
        with pytest.raises(ProcessFailed, match="has ended"):
            await engine.answers()


def test_what_vllm_has_resolved_is_one_line() -> None:
    from auricle.workers.pd.vllm.device_worker import described

    layers = SimpleNamespace(backend=SimpleNamespace(get_name=lambda: "TRITON_ATTN"))
    passes = SimpleNamespace(
        cudagraph_mode=SimpleNamespace(name="FULL"), cudagraph_capture_sizes=[1, 8, 1024]
    )
    config = SimpleNamespace(compilation_config=passes)
    said = "attention by TRITON_ATTN; CUDA graphs: FULL up to 1024 tokens"
    assert described([[layers, layers]], config) == said


def options(passes: PassOptions, **others: Any) -> EngineOptions:
    """The options of an engine with these passes."""
    return EngineOptions(
        model=str(MODEL), dtype="float32", max_model_len=512, max_num_seqs=4, block_size=32,
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, passes=passes,
        **others,
    )  # fmt: skip


def test_each_of_vllms_ways_to_schedule_has_its_scheduler(arguments: Any) -> None:
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    for ahead in (False, True):
        given = arguments.of_passes(options(PassOptions(async_scheduling=ahead)))
        assert given["async_scheduling"] is ahead
        scheduler = resolve_obj_by_qualname(given["scheduler_cls"])
        assert issubclass(scheduler, AsyncScheduler) is ahead


def test_kernels_that_greedy_requests_do_not_run_are_not_compiled_at_start(arguments: Any) -> None:
    given = arguments.of_passes(options(PassOptions(cudagraph_mode="full")))
    assert given["kernel_config"].enable_jit_warmup is False


def test_passes_are_told_in_vllms_words(arguments: Any) -> None:
    from vllm.config.compilation import CompilationMode, CUDAGraphMode

    eager = arguments.of_passes(options(PassOptions(max_batched_tokens=4096)))
    assert eager["max_num_batched_tokens"] == 4096
    assert "compilation_config" not in eager
    attends = arguments.of_passes(
        options(PassOptions(max_batched_tokens=4096), chunk_positions=1500)
    )
    assert attends["max_num_batched_tokens"] == 6000  # four requests at once
    graphs = arguments.compilation(PassOptions(cudagraph_mode="full", max_capture_size=512))
    assert (graphs.mode, graphs.cudagraph_mode) == (CompilationMode.NONE, CUDAGraphMode.FULL)
    assert graphs.max_cudagraph_capture_size == 512
    compiled = PassOptions(
        compilation_mode="vllm_compile", cudagraph_mode="full_and_piecewise", capture_sizes=(8, 64)
    )
    pieces = arguments.compilation(compiled)
    assert pieces.mode == CompilationMode.VLLM_COMPILE
    assert pieces.cudagraph_mode == CUDAGraphMode.FULL_AND_PIECEWISE
    assert pieces.cudagraph_capture_sizes == [8, 64]
    assert pieces.max_cudagraph_capture_size is None
