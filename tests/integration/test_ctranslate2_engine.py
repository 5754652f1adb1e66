"""CTranslate2's engine: the tokens of transformers', in batches, and a bad request fails alone."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    ProcessFailed,
    SettingsError,
    WindowsMissing,
    WorkerUnavailable,
)
from auricle.embeddings.layout import KEY_BYTES
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.workers.pd.ctranslate2.engine import CTranslate2Engine
from auricle.workers.pd.ctranslate2.model import WhisperDecoderModel
from auricle.workers.pd.ctranslate2.options import CTranslate2Options
from auricle.workers.pd.engine import BACKGROUND, Decoded, GenerateRequest
from auricle.workers.pd.transformers.engine import TransformersEngine
from auricle.workers.pd.transformers.options import TransformersOptions
from auricle_testing import recordings
from auricle_testing.checkpoints.whisper import Stock, answers_that_end, random_whisper
from auricle_testing.engines import Windows, landing_slab, with_recordings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
WAIT_SECONDS = 120.0
OPTIONS = CTranslate2Options("float32", threads=1, max_model_len=448, max_requests=16)


class Model:
    """A random multilingual checkpoint, and the recordings' windows in a slab.

    With `cached` silence each recording has two windows, otherwise one.
    """

    def __init__(self, path: Path, *, cached: bool) -> None:
        self.stock: Stock = answers_that_end(random_whisper(path, seed=3), path)
        whole = open_checkpoint(path)
        short = replace(whole, geometry=whole.geometry.before_cached_silence())
        self.checkpoint: ModelCheckpoint = short if cached else whole
        self.slab: Slab = landing_slab(self.checkpoint, "host", 32)
        self.windows: Windows = with_recordings(self.checkpoint, self.slab)
        self.prompt = PromptFormat(self.checkpoint)

    def request(self, name: str, **values: Any) -> GenerateRequest:
        """The request to write a recording in German, changed by `values`."""
        plain = GenerateRequest(
            name,
            self.prompt.head(values.pop("context", "")),
            self.windows[name],
            (*self.prompt.tail("German"), *values.pop("prefix", ())),
            self.prompt.stop_tokens,
            values.pop("max_tokens", 80),
            priority=1,
            tenant="test",
        )
        return replace(plain, **values)

    def detection(self, name: str, **values: Any) -> GenerateRequest:
        """The request for the language of a recording."""
        named = {
            "tail": self.prompt.tail(None),
            "max_tokens": 1,
            "allowed": self.prompt.language_tokens(()),
            "logprobs": True,
        }
        return self.request(name, **named | values)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(tmp_path_factory.mktemp("whisper"), cached=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model: Model) -> AsyncIterator[CTranslate2Engine]:
    engine = await asyncio.to_thread(CTranslate2Engine, model.checkpoint, OPTIONS, model.slab)
    yield engine
    await engine.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(model: Model) -> AsyncIterator[TransformersEngine]:
    """transformers' engine on the same windows."""
    options = TransformersOptions("float32", "cpu", 1, 448, 2, 16)
    engine = await asyncio.to_thread(TransformersEngine, model.checkpoint, options, model.slab)
    yield engine
    await engine.close()


async def test_too_little_temporary_space_is_an_error_that_names_the_folder(model: Model) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, limits[1]))
    try:
        with pytest.raises(SettingsError, match=f"decoder to {tempfile.gettempdir()}: File too"):
            await asyncio.to_thread(WhisperDecoderModel, model.checkpoint, "float32", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class Gate:
    """Holds calls of CTranslate2 until it is opened; `batches` has the prompts of each."""

    def __init__(self, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        self.batches: list[int] = []
        passes: Any = engine._passes
        continued = passes._model.continued

        def held(audio: Any, prompts: Any, *arguments: Any, **named: Any) -> Any:
            self.reached.set()
            assert self._open.wait(WAIT_SECONDS)
            self.batches.append(len(prompts))
            return continued(audio, prompts, *arguments, **named)

        monkeypatch.setattr(passes._model, "continued", held)

    async def entered(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, WAIT_SECONDS)

    def open(self) -> None:
        self._open.set()


async def behind(
    gate: Gate,
    engine: CTranslate2Engine,
    model: Model,
    *requests: GenerateRequest,
    priority: int = 0,
) -> list[Decoded | BaseException]:
    """The outcomes of requests that wait for another one of `priority`, and then run."""
    first = asyncio.create_task(engine.generate(model.request("hello", priority=priority)))
    await gate.entered()
    tasks = [asyncio.create_task(engine.generate(request)) for request in requests]
    await asyncio.sleep(0)
    gate.open()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("context", ["", "peter hat"])
@pytest.mark.parametrize("name", recordings.NAMES)
async def test_recordings_get_transformers_tokens_and_log_probabilities(
    model: Model, engine: CTranslate2Engine, plain: TransformersEngine, name: str, context: str
) -> None:
    request = model.request(name, context=context, logprobs=True)
    expected, found = await plain.generate(request), await engine.generate(request)
    assert (found.tokens, found.finish) == (expected.tokens, expected.finish)
    assert found.prompt_tokens == expected.prompt_tokens
    assert found.steps == len(found.tokens) > 1
    # The first is among those without control tokens, to which random weights give a share.
    np.testing.assert_allclose(found.logprobs[:1], expected.logprobs[:1], atol=1e-2)
    np.testing.assert_allclose(found.logprobs[1:], expected.logprobs[1:], atol=1e-3)
    unscored = await engine.generate(replace(request, logprobs=False))
    assert (unscored.tokens, unscored.logprobs) == (found.tokens, ())
    at = found.timings
    assert at.queued <= at.scheduled <= at.first_token <= at.last_token


async def test_padded_recordings_get_the_stock_models_tokens(tmp_path: Path) -> None:
    model = Model(tmp_path, cached=False)
    engine = await asyncio.to_thread(CTranslate2Engine, model.checkpoint, OPTIONS, model.slab)
    for name in recordings.NAMES:
        found = await engine.generate(model.request(name))
        tail = model.prompt.tail("German")
        assert list(found.tokens) == model.stock.tokens(recordings.samples(name), (), tail)
    await engine.close()


async def test_a_limit_and_a_forced_prefix_mean_what_they_mean_to_transformers(
    model: Model, engine: CTranslate2Engine, plain: TransformersEngine
) -> None:
    whole = (await plain.generate(model.request("station"))).tokens
    for cut in (1, 3, len(whole) - 1):
        for one in (engine, plain):
            short = await one.generate(model.request("station", max_tokens=cut))
            assert (short.tokens, short.finish) == (whole[:cut], "length")
            scored = model.request("station", prefix=whole[:cut], logprobs=True)
            rest = await one.generate(scored)
            assert rest.tokens == whole[cut:]
            assert len(rest.logprobs) == len(rest.tokens)


async def test_requests_of_one_shape_are_one_batch_and_change_no_token_of_each_other(
    model: Model, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = (await engine.generate(model.request("market"))).tokens
    requests = [model.request(name) for name in recordings.NAMES]
    requests += [
        model.request("market", prefix=answer[:3]),
        model.request("market", max_tokens=2),
    ]
    alone = [(await engine.generate(request)).tokens for request in requests]
    others = [
        model.request("market", context="peter hat"),
        model.request("market", logprobs=True),
        model.request("market", priority=BACKGROUND),
        model.request("market", priority=BACKGROUND),  # parts, while a session is live
    ]
    gate = Gate(engine, monkeypatch)
    found = await behind(gate, engine, model, *requests, *others)
    assert [one.tokens for one in found[: len(alone)] if isinstance(one, Decoded)] == alone
    assert gate.batches == [1, len(requests), 1, 1, 1, 1]


async def test_parts_of_recordings_are_one_batch_without_live_sessions(
    model: Model, plain: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await asyncio.to_thread(CTranslate2Engine, model.checkpoint, OPTIONS, model.slab)
    parts = [model.request(name, priority=BACKGROUND) for name in recordings.NAMES]
    expected = [(await plain.generate(part)).tokens for part in parts]
    gate = Gate(engine, monkeypatch)
    found = await behind(gate, engine, model, *parts, priority=BACKGROUND)
    assert [one.tokens for one in found if isinstance(one, Decoded)] == expected
    assert gate.batches == [1, len(parts)]
    gate = Gate(engine, monkeypatch)
    await behind(gate, engine, model, *parts, priority=0)
    assert gate.batches == [1] * (1 + len(parts))
    await engine.close()


async def test_an_answer_in_several_calls_is_the_same(
    model: Model, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = model.request("market", logprobs=True)
    expected = await engine.generate(request)
    monkeypatch.setattr(engine._passes, "_most_tokens", 2)
    gate = Gate(engine, monkeypatch)
    gate.open()
    found = await engine.generate(request)
    assert len(gate.batches) == -(-len(expected.tokens) // 2)
    assert found.tokens == expected.tokens
    # The first of a call is among those without control tokens.
    np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-2)


async def test_the_language_is_detected_as_by_transformers(
    model: Model, engine: CTranslate2Engine, plain: TransformersEngine
) -> None:
    only = model.prompt.language_tokens(("German",))
    for name in recordings.NAMES:
        request = model.detection(name)
        expected, found = await plain.generate(request), await engine.generate(request)
        assert found.tokens == expected.tokens
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)
        named = await engine.generate(model.detection(name, allowed=only))
        assert (named.tokens, named.logprobs) == (only, (0.0,))


async def test_only_allowed_tokens_are_taken_and_scored(
    model: Model, engine: CTranslate2Engine, plain: TransformersEngine
) -> None:
    answer = (await engine.generate(model.request("market"))).tokens
    allowed = sorted({*answer} - {answer[2]})
    request = model.request("market", allowed=allowed, logprobs=True, max_tokens=8)
    expected, found = await plain.generate(request), await engine.generate(request)
    assert found.tokens == expected.tokens != answer
    np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)


@pytest.mark.parametrize("fault", ["another window", "not finite", "outside the vocabulary"])
async def test_a_request_that_fails_in_a_batch_fails_alone(
    model: Model, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    expected = (await engine.generate(model.request("kitchen"))).tokens
    right = model.windows["market"][0]
    wrong: dict[str, Any] = {"windows": (replace(right, generation=2),)}
    error: type[AuricleError] = WindowsMissing
    if fault == "not finite":
        spoilt = SlotRef("cd" * KEY_BYTES, model.slab.count - 1, 1, right.length)
        payload = np.full(right.length * model.checkpoint.geometry.hidden_size, np.nan, np.float32)
        model.slab.write(spoilt.slot, spoilt.key, 1, payload.view(np.uint8))
        wrong, error = {"windows": (spoilt,)}, AuricleError
    if fault == "outside the vocabulary":
        wrong, error = {"prefix": (10**6,)}, BadRequest
    gate = Gate(engine, monkeypatch)
    failed, other = await behind(
        gate, engine, model, model.request("market", **wrong), model.request("kitchen")
    )
    assert isinstance(failed, error)
    assert isinstance(other, Decoded) and other.tokens == expected


async def test_a_prompt_for_timestamps_is_refused(model: Model, engine: CTranslate2Engine) -> None:
    with pytest.raises(BadRequest, match="as its last control token"):
        await engine.generate(model.request("market", tail=model.prompt.tail(None)))


async def test_a_prompt_that_leaves_no_room_for_output_is_refused(
    model: Model, engine: CTranslate2Engine
) -> None:
    with pytest.raises(BadRequest, match="no room for output in max_model_len 448"):
        await engine.generate(model.request("market", prefix=(5,) * 444))


async def test_a_cancelled_request_no_longer_reads_its_slots_and_is_not_waited_for(
    model: Model, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = (await engine.generate(model.request("hello"))).tokens
    gate = Gate(engine, monkeypatch)
    running = asyncio.create_task(engine.generate(model.request("market")))
    await gate.entered()
    waiting = asyncio.create_task(engine.generate(model.request("kitchen")))
    await asyncio.sleep(0)
    for task in (waiting, running):
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    gate.open()
    assert (await engine.generate(model.request("hello"))).tokens == expected


async def test_a_final_runs_before_what_came_earlier(
    model: Model, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    async def decode(priority: int) -> None:
        await engine.generate(model.request("kitchen", priority=priority))
        ended.append(priority)

    gate = Gate(engine, monkeypatch)
    first = asyncio.create_task(decode(0))
    await gate.entered()
    tasks = [asyncio.create_task(decode(priority)) for priority in (2, 1, 0)]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(first, *tasks)
    assert ended == [0, 0, 1, 2]


async def test_load_reports_have_the_requests_in_progress_and_the_time_of_a_step(
    model: Model, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(engine, monkeypatch)
    running = asyncio.create_task(engine.generate(model.request("market")))
    await gate.entered()
    assert engine.state.kv_usage == 1 / OPTIONS.max_requests
    gate.open()
    await running
    await engine.answers()
    assert engine.state.kv_usage == 0.0 < engine.state.step_seconds


async def test_with_int8_weights_it_answers_too(model: Model) -> None:
    options = replace(OPTIONS, compute_type="int8")
    engine = await asyncio.to_thread(CTranslate2Engine, model.checkpoint, options, model.slab)
    found = await engine.generate(model.request("market"))
    assert found.finish == "stop" and len(found.tokens) > 1
    await engine.close()


async def test_it_answers_until_it_is_closed(model: Model) -> None:
    engine = await asyncio.to_thread(CTranslate2Engine, model.checkpoint, OPTIONS, model.slab)
    await engine.answers()
    await engine.check_health()
    await engine.close()
    with pytest.raises(WorkerUnavailable):
        await engine.generate(model.request("hello"))
    assert engine.dead.is_set()
    with pytest.raises(ProcessFailed, match="the thread of CTranslate2 has ended"):
        await engine.answers()
    with pytest.raises(ProcessFailed, match="the thread of CTranslate2 has ended"):
        await engine.check_health()
