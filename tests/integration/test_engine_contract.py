"""What transformers' engine and SGLang's do alike; test_engine.py compares vLLM with the first.

SGLang's tests are skipped where it is not installed (requirements/sglang-cpu.txt).
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec

import pytest
import pytest_asyncio
import torch

from auricle.audio.pcm import to_float, to_int16
from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import BadRequest, ProcessFailed, WindowsMissing, WorkerUnavailable
from auricle.embeddings.slab import Slab
from auricle.workers.pd.engine import Decoded, Engine
from auricle.workers.pd.engine_start import engine_kind
from auricle.workers.pd.sglang.engine import SglangEngine
from auricle_testing import recordings
from auricle_testing.engines import MODEL, Bench, growing, landing_slab, with_recordings
from models.training.reference import Reference

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
REQUESTS = 2
GROWING = "kitchen"
NO_SGLANG = pytest.mark.skipif(find_spec("sglang") is None, reason="sglang is not installed")


@pytest.fixture(scope="module")
def checkpoint() -> ModelCheckpoint:
    return open_checkpoint(MODEL)


@pytest.fixture(scope="module", params=["transformers", pytest.param("sglang", marks=NO_SGLANG)])
def settings(request: pytest.FixtureRequest) -> PdWorkerSettings:
    return PdWorkerSettings(
        engine=request.param,
        model=MODEL,
        dtype="float32",
        threads=1,
        max_model_len=1024,
        max_requests=REQUESTS,
    )


@pytest.fixture(scope="module")
def slab(checkpoint: ModelCheckpoint, settings: PdWorkerSettings) -> Slab:
    return landing_slab(checkpoint, "device", 128)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(
    checkpoint: ModelCheckpoint, settings: PdWorkerSettings, slab: Slab
) -> AsyncIterator[Bench[Engine]]:
    prompt = PromptFormat(checkpoint)
    kind = engine_kind(settings.engine)
    windows = with_recordings(checkpoint, slab)
    windows |= growing(checkpoint, slab, GROWING, sum(map(len, windows.values())))
    # More wait in these tests than a worker admits.
    waiting = settings.model_copy(update={"max_requests": 16})
    wide = waiting if settings.engine == "transformers" else settings
    engine = await asyncio.to_thread(kind.start, wide, checkpoint, slab, prompt.audio_token, "")
    slab.unlink()
    yield Bench(engine, prompt, windows)
    await engine.close()


@asynccontextmanager
async def busy(bench: Bench[Engine]) -> AsyncIterator[Sequence[asyncio.Task[Decoded]]]:
    """Keep all places of the engine taken, by requests that only end when they are cancelled."""
    allowed = (await bench.decode("hello")).tokens[:1]
    tasks = [
        asyncio.create_task(bench.decode("hello", allowed=allowed, max_tokens=900))
        for _ in range(REQUESTS)
    ]
    await asyncio.sleep(0)
    await bench.engine.answers()
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_tokens_equal_decoding_all_at_once(bench: Bench[Engine], name: str) -> None:
    torch.set_num_threads(1)
    samples = to_float(to_int16(recordings.samples(name)))
    expected = Reference(MODEL).tokens(samples, context="peter hat", max_tokens=200)
    decoded = await bench.decode(name, context="peter hat", max_tokens=201)
    assert decoded.tokens[:-1] == expected
    assert decoded.tokens[-1] in bench.prompt.stop_tokens
    assert decoded.finish == "stop"
    assert decoded.steps == len(decoded.tokens)
    at = decoded.timings
    assert at.queued <= at.scheduled <= at.first_token <= at.last_token


async def test_a_limit_and_a_forced_prefix_are_kept(bench: Bench[Engine]) -> None:
    plain = await bench.decode("hello")
    short = await bench.decode("hello", max_tokens=2)
    assert (short.tokens, short.finish) == (plain.tokens[:2], "length")
    rest = await bench.decode("hello", prefix=plain.tokens[:2])
    assert rest.tokens == plain.tokens[2:]


async def test_log_probabilities_are_those_of_the_tokens(bench: Bench[Engine]) -> None:
    plain, scored = await bench.decode("hello"), await bench.decode("hello", logprobs=True)
    assert scored.tokens == plain.tokens
    assert plain.logprobs == ()
    assert len(scored.logprobs) == len(scored.tokens)
    assert all(-7.0 < one <= 0.0 for one in scored.logprobs)


async def test_only_allowed_tokens_are_taken_and_scored(bench: Bench[Engine]) -> None:
    plain = await bench.decode("market")
    allowed = sorted({*plain.tokens} - {plain.tokens[4]})
    found = await bench.decode("market", allowed=allowed)
    assert {*found.tokens} <= {*allowed}
    assert found.tokens[:4] == plain.tokens[:4]
    only = await bench.decode("market", allowed=plain.tokens[-1:], logprobs=True)
    assert (only.tokens, only.logprobs) == (plain.tokens[-1:], (0.0,))


async def test_a_slot_that_holds_something_else_fails_that_request_only(
    bench: Bench[Engine], slab: Slab
) -> None:
    spoilt = bench.windows["market"][1]
    before = slab.header(spoilt.slot).copy()
    expected = (await bench.decode("kitchen")).tokens
    slab.invalidate(spoilt.slot)
    try:
        with pytest.raises(WindowsMissing) as missing:
            await bench.decode("market")
        assert missing.value.keys == (spoilt.key,)
        assert (await bench.decode("kitchen")).tokens == expected
    finally:
        slab.header(spoilt.slot)[:] = before
    await bench.decode("market")


async def test_a_prompt_that_leaves_no_room_for_output_is_refused(
    bench: Bench[Engine],
) -> None:
    with pytest.raises(BadRequest, match="no room for output in max_model_len 1024"):
        await bench.decode("market", prefix=[bench.prompt.head("")[0]] * 1024)


async def test_a_draft_is_refused_as_it_was_not_declared(bench: Bench[Engine]) -> None:
    assert not bench.engine.capabilities.drafts
    with pytest.raises(ValueError, match="declares no drafts"):
        await bench.decode("hello", draft=(1, 2))


async def test_requests_together_change_no_token_of_each_other(bench: Bench[Engine]) -> None:
    alone = [(await bench.decode(name)).tokens for name in recordings.NAMES]
    together = await asyncio.gather(*(bench.decode(name) for name in recordings.NAMES))
    assert [decoded.tokens for decoded in together] == alone


async def test_finished_windows_of_a_growing_segment_are_found(
    bench: Bench[Engine], checkpoint: ModelCheckpoint
) -> None:
    """Of a segment that is decoded again and again, only the new windows are computed."""
    limited = bench.engine.capabilities.limited_reuse
    whole = checkpoint.geometry.window_embeddings
    known = 0
    for name in [name for name in bench.windows if name.startswith(f"{GROWING} up to")]:
        finished = sum(window.length == whole for window in bench.windows[name])
        decoded = await bench.decode(
            name, reusable_windows=finished if limited else None, tenant="grows"
        )
        assert decoded.cached_tokens >= known
        known = finished * whole
    assert known > 0


async def test_another_tenants_prompt_shares_nothing(bench: Bench[Engine]) -> None:
    reusable = 2 if bench.engine.capabilities.limited_reuse else None
    await bench.decode("market", reusable_windows=reusable, tenant="one")
    again = await bench.decode("market", reusable_windows=reusable, tenant="one")
    other = await bench.decode("market", reusable_windows=reusable, tenant="two")
    assert again.cached_tokens > other.cached_tokens == 0
    assert again.tokens == other.tokens


async def test_a_slot_that_loses_its_window_while_the_request_waits_fails_it_alone(
    bench: Bench[Engine], slab: Slab
) -> None:
    expected = (await bench.decode("kitchen")).tokens
    spoilt = bench.windows["market"][1]
    before = slab.header(spoilt.slot).copy()
    async with busy(bench):
        waiting = asyncio.create_task(bench.decode("market", tenant="spoilt"))
        other = asyncio.create_task(bench.decode("kitchen", tenant="spoilt"))
        await asyncio.sleep(0)
        await bench.engine.answers()
        slab.invalidate(spoilt.slot)
    try:
        with pytest.raises(WindowsMissing) as missing:
            await waiting
        assert missing.value.keys == (spoilt.key,)
        assert (await other).tokens == expected
    finally:
        slab.header(spoilt.slot)[:] = before
    # Nothing of the failed pass is reused.
    again = await bench.decode("market", tenant="spoilt")
    assert again.cached_tokens <= len(bench.prompt.head(""))
    assert again.tokens == (await bench.decode("market")).tokens


async def test_a_cancelled_request_ends_and_leaves_room_for_others(bench: Bench[Engine]) -> None:
    expected = (await bench.decode("hello")).tokens
    async with busy(bench) as running:
        waiting = asyncio.create_task(bench.decode("kitchen"))
        await asyncio.sleep(0)
        await bench.engine.answers()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert not any(task.done() for task in running)
        running[0].cancel()
        await asyncio.wait([running[0]])
        assert running[0].cancelled()
    assert (await bench.decode("hello")).tokens == expected


async def test_who_is_waited_for_most_runs_next(bench: Bench[Engine]) -> None:
    ended: list[int] = []

    async def decode(priority: int) -> None:
        await bench.decode("hello", priority=priority, max_tokens=1)
        ended.append(priority)

    async with busy(bench):
        tasks = [asyncio.create_task(decode(priority)) for priority in (2, 2, 1, 1, 0, 0)]
        await asyncio.sleep(0)
        await bench.engine.answers()
    await asyncio.gather(*tasks)
    assert ended == [0, 0, 1, 1, 2, 2]


async def test_load_reports_have_the_use_of_the_cache_and_the_time_of_a_step(
    bench: Bench[Engine],
) -> None:
    async with busy(bench):
        while bench.engine.state.kv_usage == 0.0:  # before the first pass has ended
            await bench.engine.answers()
    await bench.engine.answers()
    assert bench.engine.state.kv_usage == 0.0
    assert bench.engine.state.step_seconds > 0.0


async def test_the_end_of_sglangs_process_ends_what_runs(bench: Bench[Engine]) -> None:
    """The last test, as it ends the engine."""
    engine = bench.engine
    if not isinstance(engine, SglangEngine):
        pytest.skip("of SGLang only")
    allowed = (await bench.decode("hello")).tokens[:1]
    running = asyncio.create_task(bench.decode("hello", allowed=allowed, max_tokens=900))
    await asyncio.sleep(0)
    await engine.answers()
    [process] = [child for child in multiprocessing.active_children() if child.name == "sglang"]
    process.kill()
    with pytest.raises(WorkerUnavailable, match="has ended"):
        await running
    assert engine.dead.is_set()
    with pytest.raises(WorkerUnavailable):
        await bench.decode("hello")
    for fails in (engine.answers, engine.check_health):
        with pytest.raises(ProcessFailed, match="has ended"):
            await fails()
