"""Real NIXL between two processes: reads, notices, and isolated failures."""

from __future__ import annotations

import asyncio
import itertools
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from auricle.core.errors import TransferFailed
from auricle.embeddings import read_timer
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.metrics import LandingMetrics
from auricle.embeddings.nixl import NixlEndpoint
from auricle.embeddings.read_timer import ReadTimer
from auricle.embeddings.reads import (
    READING,
    ReadRequest,
    Region,
    SlotRegions,
    payloads_then_headers,
)
from auricle.embeddings.slab import Slab
from auricle.embeddings.slots import SlotTable
from auricle.process.metrics import ComponentMetrics
from auricle.protocol.recognition import WindowRef
from auricle_testing.server import eventually
from auricle_testing.slabs import KINDS, content, slab_in

pytestmark = pytest.mark.integration
LAYOUT = SlabLayout(width=192, item_bytes=4, max_length=104)
KEY = "ab" * 24
STILL, CHANGING = 3, 5  # slots


@dataclass(frozen=True)
class Address:
    """The owner's address and regions, which a reader receives."""

    agent: str
    metadata: bytes
    still: SlotRegions
    changing: SlotRegions


def own_a_slab(pipe: Connection, generation: Synchronized[int], kind: str) -> None:
    """The encode worker's side: a constant window, and a slot whose content changes constantly.

    `generation` has the number of the slot's latest content. Answers `notices` until it has to end.
    """
    slab = slab_in(kind, LAYOUT, 8)
    notices: list[bytes] = []
    endpoint = NixlEndpoint(f"owner-{os.getpid()}", slab.regions, notices.append, lambda: True)
    metadata = endpoint.start()
    payload = np.random.default_rng(0).integers(0, 255, 104 * 768, dtype=np.uint8)
    slab.write(STILL, KEY, 7, payload)
    over = threading.Event()
    writer = threading.Thread(target=rewrite, args=(slab, generation, over))
    writer.start()
    pipe.send(
        Address(
            endpoint.name, metadata, slab.regions_of(STILL, 104), slab.regions_of(CHANGING, 104)
        )
    )
    while pipe.recv() == "notices":
        pipe.send(list(notices))
    over.set()
    writer.join()
    endpoint.close()


def rewrite(slab: Slab, generation: Synchronized[int], over: threading.Event) -> None:
    """Replace the content of a slot again and again.

    All bytes of one content are equal; half of the time the content is torn.
    """
    half, pauses = 52 * LAYOUT.row_bytes, np.random.default_rng(1)
    for number in itertools.count(1):
        slab.invalidate(CHANGING)
        torn = content(slab, CHANGING, 104)
        torn[:half] = number % 251
        slab.fill(CHANGING, torn)
        time.sleep(pauses.uniform(0, 0.003))
        torn[half:] = number % 251
        slab.fill(CHANGING, torn)
        slab.synchronize()
        slab.commit(CHANGING, KEY, number, 104)
        generation.value = number
        if over.wait(pauses.uniform(0, 0.006)):
            return


@dataclass
class Bench:
    """A reader in this process and an owner in another."""

    slab: Slab
    endpoint: NixlEndpoint
    address: Address
    owner: BaseProcess
    pipe: Connection
    generation: Synchronized[int]

    async def read(
        self,
        place: SlotRegions | None = None,
        *,
        agent: str | None = None,
        metadata: bytes | None = None,
        deadline: float = 30.0,
    ) -> None:
        """Read a window into slot 1."""
        self.slab.invalidate(1)
        request = ReadRequest(
            agent=self.address.agent if agent is None else agent,
            agent_metadata=self.address.metadata if metadata is None else metadata,
            steps=payloads_then_headers(
                [place or self.address.still], [self.slab.regions_of(1, 104)]
            ),
            notice=b"41,42",
            deadline_seconds=deadline,
        )
        await asyncio.wrap_future(self.endpoint.begin(request).outcome)

    def window(self) -> WindowRef:
        """The constant window, as the owner of a slab leases it."""
        payload, header = self.address.still.payload, self.address.still.header
        return WindowRef(
            *(KEY, "f", "float32", 104, self.address.agent, self.address.metadata),
            *(payload.address, payload.size, payload.device, payload.memory, header.address),
            *(STILL, 7, 70),
        )

    def verify(self) -> None:
        self.slab.verify(1, KEY, 7, 104)

    def notices(self) -> list[bytes]:
        """All notices that the owner has received."""
        self.pipe.send("notices")
        assert self.pipe.poll(30), "the owner does not answer"
        received: list[bytes] = self.pipe.recv()
        return received


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    kind = getattr(request, "param", "host")
    processes = multiprocessing.get_context("spawn")
    mine, theirs = multiprocessing.Pipe()
    generation: Synchronized[int] = processes.Value("Q", 0)
    owner = processes.Process(target=own_a_slab, args=(theirs, generation, kind))
    owner.start()
    slab = slab_in(kind, LAYOUT, 4)
    endpoint = NixlEndpoint(f"reader-{os.getpid()}", slab.regions)
    endpoint.start()
    try:
        assert mine.poll(60), "the owner did not start"
        yield Bench(slab, endpoint, mine.recv(), owner, mine, generation)
    finally:
        endpoint.close()
        if owner.is_alive():
            mine.send("end")
        owner.join(60)
        if owner.is_alive():
            owner.kill()


@pytest.mark.parametrize("bench", KINDS, indirect=True)
async def test_a_window_arrives_whole_and_its_owner_is_told_once(bench: Bench) -> None:
    for _ in range(20):
        bench.slab.fill(1, np.zeros(104 * LAYOUT.row_bytes, np.uint8))
        await bench.read()
        bench.verify()
    await eventually(lambda: bench.notices() == [b"41,42"] * 20, seconds=60)
    assert READING not in bench.notices()


@pytest.mark.parametrize("bench", KINDS, indirect=True)
async def test_what_changes_while_it_is_read_is_never_taken_for_what_was_asked(
    bench: Bench,
) -> None:
    """Without a checksum: an expected header proves that all bytes before it are right."""
    whole = refused = 0
    async with asyncio.timeout(60):
        while min(whole, refused) < 20:
            expected = bench.generation.value
            await bench.read(bench.address.changing)
            if bench.slab.mismatch(1, KEY, expected, 104) is None:
                assert set(content(bench.slab, 1, 104).tolist()) == {expected % 251}
                whole += 1
            else:
                refused += 1


async def test_an_owner_is_told_without_a_read(bench: Bench) -> None:
    bench.endpoint.notify("unknown", b"junk", b"lost")  # has no effect
    bench.endpoint.notify(bench.address.agent, bench.address.metadata, b"7")
    await eventually(lambda: bench.notices() == [b"7"], seconds=60)


@pytest.mark.parametrize("what", ["agent", "metadata", "embeddings", "header"])
async def test_a_wrong_location_fails_that_read_alone(bench: Bench, what: str) -> None:
    elsewhere = Region(4096, LAYOUT.payload_bytes(104))
    still = bench.address.still
    with pytest.raises(TransferFailed, match="reading from"):
        match what:
            case "agent":
                await bench.read(agent="unknown")
            case "metadata":
                await bench.read(agent="somebody", metadata=b"junk")
            case "embeddings":
                await bench.read(replace(still, payload=elsewhere))
            case "header":
                await bench.read(replace(still, header=replace(elsewhere, size=64)))
    await bench.read()
    bench.verify()


async def test_a_killed_owner_is_noticed(bench: Bench) -> None:
    await bench.read()
    bench.owner.kill()
    bench.owner.join(60)
    with pytest.raises(TransferFailed):
        async with asyncio.timeout(60):
            await bench.read(deadline=3.0)


async def test_many_reads_at_once_all_complete(bench: Bench) -> None:
    await asyncio.gather(*(bench.read() for _ in range(50)))
    bench.verify()


@pytest.mark.parametrize("bench", KINDS, indirect=True)
async def test_the_rate_of_reads_is_measured_and_nothing_changes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "auricle.embeddings.read_timer")
    registry, table = CollectorRegistry(), SlotTable(bench.slab.count)
    metrics = LandingMetrics(ComponentMetrics(registry, "pd_worker"))
    timer = ReadTimer(bench.slab, table, bench.endpoint, metrics)
    timing = asyncio.create_task(timer.run())
    await asyncio.sleep(0)
    timer.time(bench.window(), b"70")
    await eventually(lambda: bool(timer.reads()), seconds=60)
    (read,) = timer.reads()
    assert read.size > 10e6 and read.seconds is not None, read.fault
    rate = registry.get_sample_value(
        "auricle_pd_worker_timed_read_bytes_per_second", {"memory": "host"}
    )
    assert rate == read.size / read.seconds > 0
    assert "GB/s from owner-" in caplog.text and "over NIXL's UCX" in caplog.text
    await eventually(lambda: bench.notices() == [b"70"], seconds=60)
    assert table.in_use == 0
    await bench.read()
    bench.verify()
    timing.cancel()


async def test_reads_from_an_owner_that_has_gone_cannot_be_timed(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_timer, "_DEADLINE_SECONDS", 3.0)
    await bench.read()
    bench.owner.kill()
    bench.owner.join(60)
    timer = ReadTimer(bench.slab, SlotTable(bench.slab.count), bench.endpoint, None)
    timing = asyncio.create_task(timer.run())
    await asyncio.sleep(0)
    timer.time(bench.window(), b"70")
    await eventually(lambda: bool(timer.reads()), seconds=60)
    (read,) = timer.reads()
    assert read.seconds is None and bench.address.agent in read.fault
    assert f"could not be timed: {read.fault}" in caplog.text
    timing.cancel()
