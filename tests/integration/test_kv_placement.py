"""Segments placed where the KV of their context is, through Dynamo's KV router."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.prompt import PromptFormat
from auricle.client.stream import stream_file
from auricle.runtime import KvIndex, Runtime
from auricle.settings import ProcessorSettings
from tests import recordings
from tests.server import ROOT, Server, serving

pytestmark = pytest.mark.end_to_end
MODEL = ROOT / "models/demo"
CONTEXTS = [
    " ".join(f"The {n}th harbour pilot is called {name}." for n in range(20))
    for name in ("Anselm Brockdorff", "Wilhelmina Oakes", "Tove Lindqvist", "Idris Farrow")
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Two PD workers that tell of their KV, and a processor that listens."""
    with serving("--Common.placement=kv", "--PdWorker.replicas=2") as running:
        yield running


@pytest.fixture
async def index(server: Server) -> AsyncIterator[KvIndex]:
    """As the processor has one."""
    settings = ProcessorSettings(model=MODEL, discovery_path=server.discovery, placement="kv")
    runtime = Runtime(settings)
    await runtime.client("pd_worker", "generate").wait_for_instances(10)
    yield runtime.kv_index("pd_worker", "generate")
    runtime.close()


async def prefilled(server: Server, context: str) -> int:
    """Prompt tokens of a session that the KV cache of its PD worker did not have."""
    samples = recordings.samples("hello")
    events = [e async for e in stream_file(server.url, samples, live=False, context=context)]
    usage = events[-1]["usage"]
    return int(usage["prompt_tokens"]) - int(usage["cached_tokens"])


async def holders(index: KvIndex, head: tuple[int, ...], tenant: str = "default") -> list[int]:
    """Who holds the prompt's head, once anybody does."""
    async with asyncio.timeout(10):
        while not (held := await index.held(head, tenant)):  # noqa: ASYNC110  it only answers
            await asyncio.sleep(0.02)
    return list(held)


async def test_sessions_with_one_context_go_where_it_is(server: Server, index: KvIndex) -> None:
    """By load alone they would take turns, and both workers prefill every context."""
    prompt = PromptFormat(open_checkpoint(MODEL))
    without = await prefilled(server, "")
    for context in CONTEXTS:
        head = prompt.head(context)
        assert len(head) > 300
        assert await prefilled(server, context) > len(head)
        (holder,) = await holders(index, head)
        for _ in range(2):
            # A block is 32 tokens; only what follows the last full one is prefilled again.
            assert await prefilled(server, context) < without + 64
        assert await holders(index, head) == [holder]


async def test_tenants_do_not_see_where_others_have_their_kv(
    server: Server, index: KvIndex
) -> None:
    head = PromptFormat(open_checkpoint(MODEL)).head(CONTEXTS[0])
    await prefilled(server, CONTEXTS[0])
    assert await holders(index, head)
    assert await index.held(head, "somebody else") == {}
