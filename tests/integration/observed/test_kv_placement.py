"""Segments are placed with Dynamo's KV router on the worker that has the KV of their context."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.prompt import PromptFormat
from auricle.client.stream import stream_file
from auricle.config.settings import ProcessorSettings
from auricle.dynamo import KvIndex, Runtime
from auricle_testing import recordings
from auricle_testing.server import ROOT, Server
from tests.engine_under_test import needs_kv_events

pytestmark = [pytest.mark.end_to_end, needs_kv_events]
MODEL = ROOT / "models/demo"
BLOCK = 32  # configs/demo.yaml


def context_of(name: str) -> str:
    """About 600 tokens; the prompts of other tests begin differently."""
    return " ".join(f"The {n}th harbour pilot is called {name}." for n in range(20))


CONTEXTS = [
    context_of(name)
    for name in ("Anselm Brockdorff", "Wilhelmina Oakes", "Tove Lindqvist", "Idris Farrow")
]


@pytest.fixture
async def index(observed: Server) -> AsyncIterator[KvIndex]:
    """A KV index like the processor's."""
    settings = ProcessorSettings(model=MODEL, discovery_path=observed.discovery, placement="kv")
    runtime = Runtime(settings)
    await runtime.client("pd_worker", "generate").wait_for_instances(60)
    yield runtime.kv_index("pd_worker", "generate")
    runtime.close()


async def prefilled(server: Server, context: str) -> int:
    """The number of a session's prompt tokens that its PD worker did not have in the KV cache."""
    samples = recordings.samples("hello")
    events = [e async for e in stream_file(server.url, samples, live=False, context=context)]
    usage = events[-1]["usage"]
    return int(usage["prompt_tokens"]) - int(usage["cached_tokens"])


async def holders(index: KvIndex, head: tuple[int, ...], tenant: str = "default") -> list[int]:
    """The workers that hold the prompt's head; waits for the first."""
    async with asyncio.timeout(60):
        while not (held := await index.held(head, tenant)):  # noqa: ASYNC110  it only answers
            await asyncio.sleep(0.02)
    return list(held)


async def listening(server: Server, limit: int) -> None:
    """Wait until the processor receives the workers' KV events: it subscribes after it is ready.

    A single hit may be by chance; two consecutive contexts are less likely to be.
    """
    hits = 0
    async with asyncio.timeout(120):
        for number in itertools.count():
            context = context_of(f"Newcomer {number}")
            await prefilled(server, context)
            hits = hits + 1 if await prefilled(server, context) < limit else 0
            if hits == 2:
                return


async def test_sessions_with_one_context_go_where_it_is(observed: Server, index: KvIndex) -> None:
    """Placement by load alone would alternate, and both workers would prefill every context."""
    prompt = PromptFormat(open_checkpoint(MODEL))
    # Only tokens after the last full block are prefilled again.
    limit = await prefilled(observed, "") + 2 * BLOCK
    await listening(observed, limit)
    missed = 0
    for context in CONTEXTS:
        head = prompt.head(context)
        assert len(head) > 300
        assert await prefilled(observed, context) > len(head)
        await holders(index, head)
        for _ in range(2):
            logged = len(observed.log)
            elsewhere = await prefilled(observed, context) >= limit
            # Placement is best effort: on a busy machine the router may answer too late.
            late = any("placed by load alone" in line for line in observed.log[logged:])
            missed += elsewhere and not late
    assert missed <= 1


async def test_tenants_do_not_see_where_others_have_their_kv(
    observed: Server, index: KvIndex
) -> None:
    head = PromptFormat(open_checkpoint(MODEL)).head(CONTEXTS[0])
    await prefilled(observed, CONTEXTS[0])
    assert await holders(index, head)
    assert await index.held(head, "somebody else") == {}
