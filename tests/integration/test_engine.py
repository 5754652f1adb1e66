"""vLLM with our model, connector and scheduler.

The tests cover drafts and the KV cache, and compare vLLM with transformers: the same requests give
the same tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import psutil
import pytest
import pytest_asyncio

from auricle.checkpoints.files import ModelCheckpoint, open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.core.errors import BadRequest
from auricle.embeddings.layout import KEY_BYTES
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotRef
from auricle.workers.pd.transformers.engine import TransformersEngine
from auricle.workers.pd.transformers.options import TransformersOptions
from auricle.workers.pd.vllm.engine import VllmEngine
from auricle.workers.pd.vllm.options import EngineOptions
from auricle_testing import recordings
from auricle_testing.engines import MODEL, Bench, growing, landing_slab, with_recordings
from auricle_testing.slabs import content

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
BLOCK = 32
GROWING = "kitchen"


@pytest.fixture(scope="module")
def checkpoint() -> ModelCheckpoint:
    return open_checkpoint(MODEL)


@pytest.fixture(scope="module")
def slab(checkpoint: ModelCheckpoint) -> Slab:
    """The slab of both engines. Other tests' graphs have slabs in host memory."""
    return landing_slab(checkpoint, "device", 128)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(checkpoint: ModelCheckpoint, slab: Slab) -> AsyncIterator[Bench[VllmEngine]]:
    prompt = PromptFormat(checkpoint)
    options = EngineOptions(
        model=str(MODEL), dtype="float32", max_model_len=1024, max_num_seqs=16, block_size=BLOCK,
        kv_cache_gib=1, gpu_memory_share=0.5, enforce_eager=True, threads=1, draft_tokens=8,
    )  # fmt: skip
    engine = await asyncio.to_thread(VllmEngine, options, slab, prompt.audio_token)
    slab.unlink()
    windows = with_recordings(checkpoint, slab)
    first, slot = windows["kitchen"][0], sum(map(len, windows.values()))
    copy = SlotRef("cd" * KEY_BYTES, slot, 1, first.length)
    slab.write(slot, copy.key, 1, content(slab, first.slot, first.length))
    windows["twice"], windows["copied"] = (first, first), (first, copy)
    windows |= growing(checkpoint, slab, GROWING, slot + 1)
    yield Bench(engine, prompt, windows)
    await engine.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(
    checkpoint: ModelCheckpoint, slab: Slab, bench: Bench[VllmEngine]
) -> AsyncIterator[Bench[TransformersEngine]]:
    """An engine without vLLM on the same windows in the same slab."""
    options = TransformersOptions("float32", "cpu", 1, 1024, 4, 64)
    engine = await asyncio.to_thread(TransformersEngine, checkpoint, options, slab)
    yield Bench(engine, bench.prompt, bench.windows)
    await engine.close()


def drafts(tokens: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Drafts that are correct, wrong in one place, or unrelated."""
    middle = len(tokens) // 2
    other = tokens[0]
    return {
        "right": tokens[:-1],
        "right, end of turn included": tokens,
        "beginning only": tokens[:3],
        "one replaced": (*tokens[:middle], other, *tokens[middle + 1 : -1]),
        "one missing": (*tokens[:middle], *tokens[middle + 1 : -1]),
        "one too many": (*tokens[:middle], other, *tokens[middle:-1]),
        "continues after the end": (*tokens[:-1], *tokens[3:8]),
        "nonsense": tuple(reversed(tokens[:-1])),
    }


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_no_draft_changes_the_output(bench: Bench[VllmEngine], name: str) -> None:
    plain = await bench.decode(name)
    assert plain.steps == len(plain.tokens)
    for what, draft in drafts(plain.tokens).items():
        drafted = await bench.decode(name, draft)
        assert drafted.tokens == plain.tokens, what
        assert drafted.steps <= plain.steps, what


async def test_a_window_may_stand_in_a_prompt_twice(bench: Bench[VllmEngine]) -> None:
    """Keys carry no position: two windows of digital silence have one key."""
    twice = await bench.decode("twice", reusable_windows=2)
    again = await bench.decode("twice", reusable_windows=2)
    assert twice.tokens == again.tokens == (await bench.decode("copied")).tokens


async def test_a_right_draft_takes_a_pass_for_eight_tokens(bench: Bench[VllmEngine]) -> None:
    plain = await bench.decode("kitchen")
    drafted = await bench.decode("kitchen", plain.tokens[:-1])
    # Each pass, including the one of the prompt, verifies eight drafted tokens and adds one.
    assert drafted.steps == -(-len(plain.tokens) // 9)
    assert drafted.accepted_tokens == drafted.draft_tokens


async def test_after_a_wrong_token_the_rest_of_the_draft_is_still_used(
    bench: Bench[VllmEngine],
) -> None:
    plain = await bench.decode("kitchen")
    wrong = drafts(plain.tokens)
    for what in ("one replaced", "one missing", "one too many"):
        drafted = await bench.decode("kitchen", wrong[what])
        assert drafted.steps <= len(plain.tokens) // 2, what


async def test_drafts_do_not_change_neighbours_or_each_other(bench: Bench[VllmEngine]) -> None:
    alone = {name: await bench.decode(name) for name in recordings.NAMES}
    jobs, expected = [], []
    for name in recordings.NAMES:
        for draft in ((), *list(drafts(alone[name].tokens).values())[::3]):
            jobs.append(bench.decode(name, draft))
            expected.append(alone[name].tokens)
    together = await asyncio.gather(*jobs)
    assert [d.tokens for d in together] == expected


async def test_log_probabilities_change_no_token_of_anybody(bench: Bench[VllmEngine]) -> None:
    names = recordings.NAMES
    alone = {name: await bench.decode(name) for name in names}
    together = await asyncio.gather(
        *(bench.decode(name, logprobs=True) for name in names),
        *(bench.decode(name, drafts(alone[name].tokens)["one replaced"]) for name in names),
    )
    assert [d.tokens for d in together] == [alone[name].tokens for name in (*names, *names)]
    for decoded in together[: len(names)]:
        assert len(decoded.logprobs) == len(decoded.tokens)
        # The most likely of some thousand tokens at each position.
        assert all(-7.0 < logprob <= 0.0 for logprob in decoded.logprobs)
    assert all(decoded.logprobs == () for decoded in together[len(names) :])


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_no_draft_changes_a_log_probability(bench: Bench[VllmEngine], name: str) -> None:
    plain = await bench.decode(name, logprobs=True)
    assert plain.steps == len(plain.tokens) == len(plain.logprobs)
    for what, draft in drafts(plain.tokens).items():
        drafted = await bench.decode(name, draft, logprobs=True)
        assert drafted.tokens == plain.tokens, what
        assert drafted.logprobs == pytest.approx(plain.logprobs, abs=1e-3), what
    drafted = await bench.decode(name, plain.tokens[:-1], logprobs=True)
    assert drafted.steps == -(-len(plain.tokens) // 9)


async def test_tokens_that_are_not_allowed_are_not_taken_from_a_draft(
    bench: Bench[VllmEngine],
) -> None:
    plain, other = await bench.decode("kitchen"), await bench.decode("station")
    allowed = sorted({*plain.tokens} - {plain.tokens[4]})
    undrafted = await bench.decode("kitchen", allowed=allowed, logprobs=True)
    assert {*undrafted.tokens} <= {*allowed}
    for draft in (plain.tokens[:-1], undrafted.tokens[:-1]):
        drafted, neighbour = await asyncio.gather(
            bench.decode("kitchen", draft, allowed=allowed, logprobs=True),
            bench.decode("station", other.tokens[:-1]),
        )
        assert drafted.tokens == undrafted.tokens
        assert drafted.logprobs == pytest.approx(undrafted.logprobs, abs=1e-3)
        assert neighbour.tokens == other.tokens


async def test_log_probabilities_are_those_among_the_allowed_tokens(
    bench: Bench[VllmEngine],
) -> None:
    allowed = (bench.prompt.stop_tokens[0],)
    for draft in ((), (5, 6)):
        (found,) = (await bench.decode("kitchen", draft, allowed=allowed, logprobs=True)).logprobs
        assert found == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("kind", ["logit_bias", "bad_words", "min_tokens", "repetition_penalty"])
async def test_a_draft_does_not_escape_what_else_vllm_restricts(
    bench: Bench[VllmEngine], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await bench.decode("kitchen")
    banned = plain.tokens[4]
    name, value = {
        "logit_bias": ("logit_bias", {banned: -100.0}),
        "bad_words": ("_bad_words_token_ids", [[banned]]),
        "min_tokens": ("min_tokens", len(plain.tokens) + 5),
        "repetition_penalty": ("repetition_penalty", 2.0),
    }[kind]
    builder = bench.engine._requests
    made = builder.sampling

    def restricted(*arguments: Any, **named: Any) -> Any:
        parameters = made(*arguments, **named)
        setattr(parameters, name, value)
        return parameters

    monkeypatch.setattr(builder, "sampling", restricted)
    undrafted = await bench.decode("kitchen")
    assert undrafted.tokens != plain.tokens
    for draft in (plain.tokens[:-1], plain.tokens, undrafted.tokens[:-1]):
        assert (await bench.decode("kitchen", draft)).tokens == undrafted.tokens


async def test_a_limit_inside_the_draft_is_kept(bench: Bench[VllmEngine]) -> None:
    plain = await bench.decode("kitchen")
    for limit in (1, 2, 5, 9):
        drafted = await bench.decode("kitchen", plain.tokens[:-1], max_tokens=limit)
        assert drafted.tokens == plain.tokens[:limit]
        assert drafted.finish == "length"


async def test_a_forced_prefix_and_a_draft_go_together(bench: Bench[VllmEngine]) -> None:
    plain = await bench.decode("station")
    for cut in (1, 5, len(plain.tokens) - 2):
        prefix, rest = plain.tokens[:cut], plain.tokens[cut:-1]
        undrafted = await bench.decode("station", prefix=prefix)
        drafted = await bench.decode("station", rest, prefix=prefix)
        assert drafted.tokens == undrafted.tokens == plain.tokens[cut:]


async def test_an_aborted_draft_leaves_the_engine_well(bench: Bench[VllmEngine]) -> None:
    plain = await bench.decode("market")
    aborted = 0
    async with asyncio.timeout(120):
        while aborted < 3:
            before = bench.engine.state.step_seconds
            # The draft is useless, so there are as many steps as without one.
            job = asyncio.create_task(bench.decode("market", drafts(plain.tokens)["nonsense"]))
            # It changes with every step. All steps may end within a tenth of a second, before this
            # process has seen one of them; in that case, the test tries again.
            while bench.engine.state.step_seconds == before and not job.done():  # noqa: ASYNC110
                await asyncio.sleep(0)
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)
            aborted += job.cancelled()
    assert (await bench.decode("market", plain.tokens[:-1])).tokens == plain.tokens


async def test_a_prompt_that_leaves_no_room_for_output_is_refused(bench: Bench[VllmEngine]) -> None:
    """vLLM does not check the length of requests that it did not make itself."""
    with pytest.raises(BadRequest, match="no room for output in max_model_len 1024"):
        await bench.decode("market", prefix=[bench.prompt.head("")[0]] * 1024)
    assert (await bench.decode("market")).tokens


async def test_nobody_can_connect_to_the_engines_process(bench: Bench[VllmEngine]) -> None:
    """Connections would exhaust the process's descriptors, and PyTorch would then end it."""
    engine = [p for p in psutil.Process().children(recursive=True) if "EngineCore" in p.name()]
    found = [c.laddr for p in engine for c in p.net_connections("tcp") if c.status == "LISTEN"]
    assert found
    for host, port in found:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.open_connection(host, port), 0.5)
    assert (await bench.decode("market")).tokens


async def test_only_finished_windows_are_kept_in_the_kv_cache(bench: Bench[VllmEngine]) -> None:
    windows = bench.windows["market"]
    head = len(bench.prompt.head(""))
    kept = head + sum(w.length for w in windows[:-1])
    first = await bench.decode("market", reusable_windows=len(windows) - 1, tenant="kept")
    assert first.cached_tokens == 0
    again = await bench.decode("market", reusable_windows=len(windows) - 1, tenant="kept")
    assert again.cached_tokens == kept // BLOCK * BLOCK
    assert again.tokens == first.tokens


async def test_without_a_finished_window_nothing_is_kept(bench: Bench[VllmEngine]) -> None:
    for _ in range(2):
        decoded = await bench.decode("market", reusable_windows=0, tenant="nothing kept")
        assert decoded.cached_tokens < len(bench.prompt.head("")) + BLOCK


async def test_a_live_request_does_not_wait_for_128_recordings_that_came_before(
    bench: Bench[VllmEngine],
) -> None:
    """A pass has 16 requests. First come, first served would complete at least 112 earlier."""
    recorded = [asyncio.create_task(bench.decode("market", priority=2)) for _ in range(128)]
    await asyncio.sleep(0)  # the recordings' requests are sent first
    await bench.decode("kitchen", priority=1)
    ended = sum(job.done() for job in recorded)
    assert ended < 64
    await asyncio.gather(*recorded)


@pytest.mark.parametrize("context", ["", "peter hat"])
@pytest.mark.parametrize("name", recordings.NAMES)
async def test_recordings_get_transformers_tokens(
    bench: Bench[VllmEngine], plain: Bench[TransformersEngine], name: str, context: str
) -> None:
    expected = await plain.decode(name, context=context, max_tokens=200)
    found = await bench.decode(name, context=context, max_tokens=200)
    assert (found.tokens, found.finish) == (expected.tokens, expected.finish)
    assert found.prompt_tokens == expected.prompt_tokens


async def test_a_growing_segment_gets_transformers_tokens_at_every_decode(
    bench: Bench[VllmEngine], plain: Bench[TransformersEngine]
) -> None:
    """Each engine reuses its cache, and vLLM also verifies the last hypothesis as a draft."""
    draft: tuple[int, ...] = ()
    reused = 0
    names = [name for name in bench.windows if name.startswith(f"{GROWING} up to")]
    for name in names:
        finished = len(bench.windows[name]) - 1
        expected = await plain.decode(name, reusable_windows=finished, tenant="grow")
        found = await bench.decode(
            name, draft, reusable_windows=finished, tenant="grow", max_tokens=80
        )
        assert (found.tokens, found.finish) == (expected.tokens, expected.finish), name
        draft = expected.tokens[:-1]
        reused += expected.cached_tokens > 0
    assert reused == sum(len(bench.windows[name]) > 1 for name in names) - 1


async def test_log_probabilities_agree_with_transformers(
    bench: Bench[VllmEngine], plain: Bench[TransformersEngine]
) -> None:
    for name in recordings.NAMES:
        expected = await plain.decode(name, logprobs=True)
        found = await bench.decode(name, logprobs=True)
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)


async def test_a_limit_and_a_forced_prefix_mean_what_they_mean_to_transformers(
    bench: Bench[VllmEngine], plain: Bench[TransformersEngine]
) -> None:
    whole = (await plain.decode("station")).tokens
    for cut in (1, 5, len(whole) - 2):
        for engine in (bench, plain):
            assert (await engine.decode("station", max_tokens=cut)).tokens == whole[:cut]
            assert (await engine.decode("station", prefix=whole[:cut])).tokens == whole[cut:]
