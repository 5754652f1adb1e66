"""transformers' engine: exact, reuses finished windows, and isolates a bad request from others."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import torch

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import (
    AuricleError,
    Overloaded,
    ProcessFailed,
    WorkerUnavailable,
)
from auricle.embeddings.slab import Slab
from auricle.workers.pd.transformers.engine import TransformersEngine
from auricle.workers.pd.transformers.options import TransformersOptions
from auricle_testing.engines import MODEL, Bench, Windows, landing_slab, with_recordings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
WAIT_SECONDS = 120.0
OPTIONS = TransformersOptions(
    dtype="float32", device="cpu", threads=1, max_model_len=1024, slots=2, max_waiting=16
)
Filled = tuple[ModelCheckpoint, Slab, Windows]


@pytest.fixture(scope="module")
def filled() -> Filled:
    checkpoint = open_checkpoint(MODEL)
    slab = landing_slab(checkpoint, "device")
    return checkpoint, slab, with_recordings(checkpoint, slab)


@pytest_asyncio.fixture(loop_scope="module")
async def bench(filled: Filled) -> AsyncIterator[Bench[TransformersEngine]]:
    checkpoint, slab, windows = filled
    engine = await asyncio.to_thread(TransformersEngine, checkpoint, OPTIONS, slab)
    yield Bench(engine, PromptFormat(checkpoint), dict(windows))
    await engine.close()


class Gate:
    """Holds a decoder's passes until it is opened."""

    def __init__(self, bench: Bench[TransformersEngine], monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        decoder = bench.engine._passes._decoder
        step: Callable[..., torch.Tensor] = decoder.step

        def held(*arguments: Any) -> torch.Tensor:
            self.reached.set()
            assert self._open.wait(WAIT_SECONDS)
            return step(*arguments)

        monkeypatch.setattr(decoder, "step", held)

    async def entered(self) -> None:
        """Wait until a pass is held."""
        assert await asyncio.to_thread(self.reached.wait, WAIT_SECONDS)

    def open(self) -> None:
        self._open.set()


async def test_finished_windows_are_computed_once(bench: Bench[TransformersEngine]) -> None:
    windows = bench.windows["market"]
    first = await bench.decode("market", reusable_windows=len(windows) - 1)
    again = await bench.decode("market", reusable_windows=0)
    assert first.cached_tokens == 0
    assert again.cached_tokens == len(bench.prompt.head("")) + sum(w.length for w in windows[:-1])
    assert again.tokens == first.tokens
    assert (await bench.decode("market")).cached_tokens == 0  # final decodes cache nothing


async def test_what_is_kept_is_the_tenants_own(bench: Bench[TransformersEngine]) -> None:
    await bench.decode("market", reusable_windows=2)
    other = await bench.decode("market", reusable_windows=2, tenant="other")
    assert other.cached_tokens == 0


async def test_segments_beyond_the_cache_are_computed_again_and_right(
    bench: Bench[TransformersEngine],
) -> None:
    names = ("market", "kitchen", "evening")
    before = {n: (await bench.decode(n, reusable_windows=1)).tokens for n in names}
    after = {n: await bench.decode(n, reusable_windows=1) for n in names}
    assert {n: d.tokens for n, d in after.items()} == before
    assert bench.engine.state.kv_usage == 0.0


async def test_without_a_limit_all_windows_are_kept(filled: Filled) -> None:
    checkpoint, slab, windows = filled
    options = TransformersOptions("float32", "cpu", 1, 1024, 2, 16, limit_reuse=False)
    engine = await asyncio.to_thread(TransformersEngine, checkpoint, options, slab)
    bench = Bench(engine, PromptFormat(checkpoint), windows)
    await bench.decode("market", reusable_windows=None)
    again = await bench.decode("market", reusable_windows=None)
    assert again.prompt_tokens - again.cached_tokens == len(bench.prompt.tail(None))
    await engine.close()


async def test_a_request_that_is_cancelled_ends_between_two_steps(
    bench: Bench[TransformersEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = (await bench.decode("hello")).tokens
    gate = Gate(bench, monkeypatch)
    running = asyncio.create_task(bench.decode("market"))
    await gate.entered()
    waiting = asyncio.create_task(bench.decode("kitchen"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])  # at once: it has not begun
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()  # a pass may still read its slots
    gate.open()
    await asyncio.wait([running])
    assert running.cancelled() and waiting.cancelled()
    assert (await bench.decode("hello")).tokens == expected


async def test_nobody_is_told_of_the_end_of_a_request_that_was_cancelled(
    bench: Bench[TransformersEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    loop = asyncio.get_running_loop()
    gc.collect()  # objects of earlier tests must not report here
    loop.set_exception_handler(lambda _, context: said.append(context["message"]))
    try:
        gate = Gate(bench, monkeypatch)
        running = asyncio.create_task(bench.decode("market"))
        await gate.entered()
        running.cancel()
        await asyncio.sleep(0)
        gate.open()
        await asyncio.wait([running])
        await bench.engine.answers()
        del running
        gc.collect()  # asyncio reports an unretrieved exception only at this point
    finally:
        loop.set_exception_handler(None)
    assert not said


async def test_more_requests_than_may_wait_are_refused(
    bench: Bench[TransformersEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(bench, monkeypatch)
    tasks = [asyncio.create_task(bench.decode("hello", max_tokens=1)) for _ in range(16)]
    await gate.entered()
    with pytest.raises(Overloaded, match="16 requests wait for the engine"):
        await bench.decode("hello")
    gate.open()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("fault", ["raises", "is not finite"])
async def test_a_pass_that_fails_is_of_one_request(
    bench: Bench[TransformersEngine], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    expected = (await bench.decode("market", reusable_windows=2)).tokens
    decoder = bench.engine._passes._decoder

    def failing(*_: object) -> torch.Tensor:
        if fault == "raises":
            raise RuntimeError("an error of a library")
        return torch.full((8,), float("nan"))

    with monkeypatch.context() as patch:
        patch.setattr(decoder, "step", failing)
        with pytest.raises(AuricleError, match=r"failed|not finite") as failed:
            await bench.decode("market", reusable_windows=2)
        assert "library" not in str(failed.value)
    again = await bench.decode("market", reusable_windows=2)
    assert again.tokens == expected
    assert again.cached_tokens == 0  # the failed pass's cache is discarded


async def test_it_answers_while_it_works_and_not_once_it_has_ended(
    bench: Bench[TransformersEngine],
) -> None:
    working = asyncio.create_task(bench.decode("market"))
    await bench.engine.answers()
    await bench.engine.check_health()
    await working
    assert not bench.engine.dead.is_set()
    await bench.engine.close()
    with pytest.raises(WorkerUnavailable):
        await bench.decode("hello")
    assert bench.engine.dead.is_set()
    with pytest.raises(ProcessFailed, match="has ended"):
        await bench.engine.answers()
    with pytest.raises(ProcessFailed, match="has ended"):
        await bench.engine.check_health()


async def test_what_runs_when_it_is_closed_is_told(
    bench: Bench[TransformersEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(bench, monkeypatch)
    running = asyncio.create_task(bench.decode("market"))
    await gate.entered()
    bench.engine._jobs.close()
    gate.open()
    with pytest.raises(WorkerUnavailable):
        await running
