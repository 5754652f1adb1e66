"""A PD worker's request slots: rejections have a reason, and some slots are kept for finals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from auricle.checkpoints.geometry import Geometry
from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import BadRequest, Overloaded, UnsupportedValue, from_code
from auricle.embeddings.fetch import Fetched
from auricle.embeddings.layout import tenant_mark
from auricle.protocol.recognition import DecodeReply, DecodeRequest, DecodeWindow
from auricle.workers.pd.engine import Decoded, EngineCapabilities, GenerateRequest, Timings
from auricle.workers.pd.metrics import PdWorkerMetrics
from auricle.workers.pd.worker import PdWorker
from tests.fakes.workers import PROMPT, VIEW

pytestmark = pytest.mark.unit
ALL = EngineCapabilities(drafts=True, limited_reuse=True, logprobs=True, kv_events=True)
NONE = EngineCapabilities(drafts=False, limited_reuse=False, logprobs=False, kv_events=False)


class Parts:
    """A fetcher that has every window, and an engine that answers on the test's signal."""

    def __init__(self, capabilities: EngineCapabilities = ALL) -> None:
        self.capabilities = capabilities
        self.answer = asyncio.Event()
        self.reusable: list[int | None] = []
        self.priorities: list[int] = []
        self.drafts: list[tuple[int, ...]] = []
        self.given_back: list[DecodeWindow] = []

    def give_back(self, windows: Sequence[DecodeWindow]) -> None:
        self.given_back += windows

    @asynccontextmanager
    async def pinned(self, windows: Sequence[DecodeWindow]) -> AsyncIterator[Fetched]:
        yield Fetched((), 0)

    async def generate(self, request: GenerateRequest) -> Decoded:
        self.reusable.append(request.reusable_windows)
        self.priorities.append(request.priority)
        await self.answer.wait()
        self.drafts.append(tuple(request.draft))
        noted = Timings(0.0, 0.0, 0.0, 0.0)
        # The last token ends the turn.
        tokens, scores = (1, PROMPT.stop_tokens[0]), (-0.5, -0.25) if request.logprobs else ()
        return Decoded(tokens, "stop", 10, 0, 1, 0, 0, noted, scores)


def worker(parts: Parts, geometry: Geometry = VIEW.geometry) -> PdWorker:
    return PdWorker(
        PdWorkerSettings(max_requests=8),
        PROMPT,
        geometry,
        parts,  # type: ignore[arg-type]
        parts,  # type: ignore[arg-type]
        PdWorkerMetrics(CollectorRegistry()),
    )


def request(
    *, final: bool, windows: tuple[bool, ...] = (True,), background: bool = False
) -> DecodeRequest:
    rows = tuple(
        DecodeWindow(f"{i:032x}" + tenant_mark("t"), 13, partial)
        for i, partial in enumerate(windows)
    )
    return DecodeRequest("s", "t", "r", (1,), rows, (2,), 4, final, background=background)


async def start(subject: PdWorker, *, final: bool) -> asyncio.Task[DecodeReply]:
    task = asyncio.create_task(subject.decode(request(final=final)))
    await asyncio.sleep(0)
    return task


async def test_the_last_slot_is_kept_for_finals() -> None:
    parts = Parts()
    subject = worker(parts)
    running = [await start(subject, final=False) for _ in range(7)]
    with pytest.raises(Overloaded, match="7 of 8 places are in use; try again"):
        await subject.decode(request(final=False))
    running.append(await start(subject, final=True))
    with pytest.raises(Overloaded, match="8 of 8"):
        await subject.decode(request(final=True))
    parts.answer.set()
    await asyncio.gather(*running)
    await subject.decode(request(final=False))


async def test_a_request_that_is_refused_gives_its_leases_back() -> None:
    """The caller encodes again for its next attempt: unreleased leases would fill the slab."""
    parts = Parts()
    subject = worker(parts)
    running = [await start(subject, final=False) for _ in range(7)]
    refused = request(final=False)
    with pytest.raises(Overloaded):
        await subject.decode(refused)
    assert parts.given_back == list(refused.windows)
    parts.answer.set()
    await asyncio.gather(*running)
    assert parts.given_back == list(refused.windows)


async def test_no_request_can_name_the_windows_of_another_tenant() -> None:
    """The windows may be in the landing slab, and without a ref the worker would use those."""
    parts = Parts()
    parts.answer.set()
    subject = worker(parts)
    await subject.decode(request(final=True))
    with pytest.raises(BadRequest, match="not one of the request's tenant"):
        await subject.decode(replace(request(final=True), tenant="other"))


async def test_recordings_leave_half_of_the_slots_to_live_sessions() -> None:
    parts = Parts()
    subject = worker(parts)
    running = [await start(subject, final=True) for _ in range(4)]
    with pytest.raises(Overloaded, match="4 of 8 places are in use"):
        await subject.decode(request(final=True, background=True))
    running.append(await start(subject, final=False))
    parts.answer.set()
    await asyncio.gather(*running)
    await subject.decode(request(final=True, background=True))


async def test_finals_run_before_partials_and_recordings_last() -> None:
    parts = Parts()
    parts.answer.set()
    subject = worker(parts)
    await subject.decode(request(final=True))
    await subject.decode(request(final=False))
    await subject.decode(request(final=True, background=True))
    assert parts.priorities == sorted(parts.priorities)
    assert len(set(parts.priorities)) == 3


async def test_kv_is_kept_up_to_the_first_partial_window_and_not_after_a_final() -> None:
    parts = Parts()
    parts.answer.set()
    subject = worker(parts)
    await subject.decode(request(final=False, windows=(False, False, True)))
    await subject.decode(request(final=False, windows=(True,)))
    await subject.decode(request(final=True, windows=(False, False)))
    assert parts.reusable == [2, 0, 0]


@pytest.mark.parametrize("asked", [False, True])
async def test_log_probabilities_are_those_of_the_text_and_leave_the_draft(asked: bool) -> None:
    parts = Parts()
    parts.answer.set()
    drafted = replace(request(final=True), draft=(1, 2), logprobs=asked)
    reply = await worker(parts).decode(drafted)
    assert reply.tokens == (1,)
    assert reply.logprobs == ((-0.5,) if asked else ())
    assert parts.drafts == [(1, 2)]


async def test_an_engine_is_asked_for_nothing_that_it_does_not_declare() -> None:
    parts = Parts(NONE)
    parts.answer.set()
    subject = worker(parts)
    await subject.decode(replace(request(final=False, windows=(False, True)), draft=(1, 2)))
    assert parts.drafts == [()]
    assert parts.reusable == [None]


async def test_log_probabilities_that_the_engine_lacks_are_refused_and_give_leases_back() -> None:
    """If they were omitted, the caller would attribute their absence to the audio."""
    parts = Parts(NONE)
    asked = replace(request(final=True), logprobs=True)
    with pytest.raises(UnsupportedValue, match="gives no log probabilities; ask without logprobs"):
        await worker(parts).decode(asked)
    assert parts.given_back == list(asked.windows)
    with pytest.raises(UnsupportedValue):
        raise from_code("unsupported_value", "as another process receives it")
