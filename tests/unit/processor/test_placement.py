"""The placement of segments on PD workers by the prefixes that Dynamo's KV router reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from auricle.processor.pools import PdPool, Placement
from auricle.protocol.recognition import DecodeRequest
from tests.fakes.workers import ScriptedWorkers

pytestmark = pytest.mark.unit
HEAD = tuple(range(96))


class Held:
    """A router in which instance 2 holds a prefix of one tenant."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def held(self, tokens: Sequence[int], tenant: str) -> Mapping[int, int]:
        self.asked.append(tenant)
        return {2: len(tokens)} if tenant == "acme" else {}


def request(tenant: str) -> DecodeRequest:
    return DecodeRequest("s", tenant, "r", HEAD, (), (), 8, final=True)


async def test_a_segment_goes_to_the_worker_that_holds_its_context_and_stays() -> None:
    workers, router = ScriptedWorkers(lambda _: ""), Held()
    pool = PdPool(workers, 1.0, 3, kv_index=router)  # type: ignore[arg-type]
    placement = Placement(pool)
    for _ in range(3):
        await pool.decode(placement, request("acme"))
    assert workers.used == [2, 2, 2]
    assert router.asked == ["acme"]  # once per segment


async def test_another_tenants_segment_is_placed_by_load() -> None:
    workers = ScriptedWorkers(lambda _: "")
    pool = PdPool(workers, 1.0, 3, kv_index=Held())  # type: ignore[arg-type]
    await pool.decode(Placement(pool), request("other"))
    assert workers.used == [1]
