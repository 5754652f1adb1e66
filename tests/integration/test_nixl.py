"""Real NIXL between two processes: what arrives, what is told, and what fails alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np
import pytest

from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import HostSlab
from auricle.embeddings.nixl import NixlEndpoint, ReadRequest, Region
from auricle.errors import TransferFailed
from tests.server import eventually

pytestmark = pytest.mark.integration
LAYOUT = SlabLayout(width=192, item_bytes=4, max_length=104)
KEY = "ab" * 24


@dataclass(frozen=True)
class Address:
    """What a reader is told."""

    agent: str
    metadata: bytes
    region: Region


def own_a_slab(pipe: Connection) -> None:
    """The encode worker's side: one window in slot 3; answers `notices` until told to end."""
    slab = HostSlab.private(LAYOUT, 8)
    notices: list[bytes] = []
    endpoint = NixlEndpoint(f"owner-{os.getpid()}", slab.region, notices.append, lambda: True)
    metadata = endpoint.start()
    payload = np.random.default_rng(0).integers(0, 255, 104 * 768, dtype=np.uint8)
    LAYOUT.write(slab.slot(3), KEY, 7, payload)
    pipe.send(Address(endpoint.name, metadata, slab.slot_region(3, 104)))
    while pipe.recv() == "notices":
        pipe.send(list(notices))
    endpoint.close()


@dataclass
class Bench:
    """A reader in this process and an owner in another."""

    slab: HostSlab
    endpoint: NixlEndpoint
    address: Address
    owner: BaseProcess
    pipe: Connection

    async def read(self, deadline: float = 30.0, **changed: object) -> None:
        remote = changed.get("region", self.address.region)
        assert isinstance(remote, Region)
        request = ReadRequest(
            agent=str(changed.get("agent", self.address.agent)),
            agent_metadata=bytes(changed.get("metadata", self.address.metadata)),  # type: ignore[arg-type]
            remote=(remote,),
            local=(self.slab.slot_region(1, 104),),
            notice=b"41,42",
            deadline_seconds=deadline,
        )
        await asyncio.wrap_future(self.endpoint.begin(request).outcome)

    def notices(self) -> list[bytes]:
        """All that the owner was told."""
        self.pipe.send("notices")
        assert self.pipe.poll(30), "the owner does not answer"
        received: list[bytes] = self.pipe.recv()
        return received


@pytest.fixture
def bench() -> Iterator[Bench]:
    mine, theirs = multiprocessing.Pipe()
    owner = multiprocessing.get_context("spawn").Process(target=own_a_slab, args=(theirs,))
    owner.start()
    slab = HostSlab.private(LAYOUT, 4)
    endpoint = NixlEndpoint(f"reader-{os.getpid()}", slab.region)
    endpoint.start()
    try:
        assert mine.poll(60), "the owner did not start"
        yield Bench(slab, endpoint, mine.recv(), owner, mine)
    finally:
        endpoint.close()
        if owner.is_alive():
            mine.send("end")
        owner.join(30)
        if owner.is_alive():
            owner.kill()


async def test_a_window_arrives_whole_and_its_owner_is_told(bench: Bench) -> None:
    for _ in range(20):
        bench.slab.slot(1)[:] = 0
        await bench.read()
        LAYOUT.verify(bench.slab.slot(1), KEY, 7, 104)
    await eventually(lambda: bench.notices() == [b"41,42"] * 20, seconds=60)


async def test_an_owner_is_told_without_a_read(bench: Bench) -> None:
    bench.endpoint.notify("nobody", b"junk", b"lost")  # disturbs nobody
    bench.endpoint.notify(bench.address.agent, bench.address.metadata, b"7")
    await eventually(lambda: bench.notices() == [b"7"], seconds=60)


@pytest.mark.parametrize(
    "changed",
    [
        {"agent": "nobody"},
        {"metadata": b"junk", "agent": "somebody"},
        {"region": Region(4096, LAYOUT.content_bytes(104))},
    ],
    ids=["unknown agent", "bad metadata", "bad pointer"],
)
async def test_a_wrong_location_fails_that_read_alone(
    bench: Bench, changed: dict[str, object]
) -> None:
    with pytest.raises(TransferFailed, match="reading from"):
        await bench.read(**changed)
    await bench.read()
    LAYOUT.verify(bench.slab.slot(1), KEY, 7, 104)


async def test_a_killed_owner_is_noticed(bench: Bench) -> None:
    await bench.read()
    bench.owner.kill()
    bench.owner.join(30)
    with pytest.raises(TransferFailed):
        async with asyncio.timeout(60):
            await bench.read(deadline=3.0)


async def test_many_reads_at_once_all_complete(bench: Bench) -> None:
    await asyncio.gather(*(bench.read() for _ in range(50)))
