"""The steps of a read run in sequence; an abandoned read begins no further step. NIXL is a fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auricle.core.errors import TransferFailed
from auricle.embeddings.reader import Reader
from auricle.embeddings.reads import (
    READING,
    Message,
    PendingRead,
    ReadRequest,
    Region,
    SlotRegions,
    payloads_then_headers,
)

pytestmark = pytest.mark.unit
PAYLOAD, HEADER = Region(4096, 640), Region(8192, 64)
STEPS = payloads_then_headers([SlotRegions(PAYLOAD, HEADER)], [SlotRegions(PAYLOAD, HEADER)])
NOTICE = b"41"


class Agent:
    """An agent with transfers in states that the test sets."""

    def __init__(self) -> None:
        self.prepared: list[tuple[int, bytes]] = []  # address and notice, by handle
        self.states: dict[int, str] = {}  # of each transfer that has begun, by handle
        self.read: list[tuple[int, bytes]] = []  # address and notice of each read
        self.notices: list[bytes] = []
        self.released: list[int] = []
        self.refuses: str | None = None
        self.at_once = False  # whether headers arrive at once

    def forget(self) -> None:
        self.prepared, self.read, self.states = [], [], {}

    def add_remote_agent(self, _metadata: bytes) -> bytes:
        return b"owner"

    def get_xfer_descs(self, rows: list[tuple[int, int, int]], _memory: str) -> int:
        return rows[0][0]

    def initialize_xfer(
        self, _what: str, _local: int, remote: int, _peer: str, notice: bytes
    ) -> int:
        if self.refuses == "preparing" or (self.refuses == "preparing a header" and notice):
            raise RuntimeError("it is refused")
        self.prepared.append((remote, notice))
        return len(self.prepared) - 1

    def transfer(self, handle: int) -> None:
        if self.refuses == "transferring":
            raise RuntimeError("it is refused")
        address, notice = self.prepared[handle]
        self.read.append((address, notice))
        self.states[handle] = "DONE" if self.at_once and notice else "PROC"

    def check_xfer_state(self, handle: int) -> str:
        return self.states[handle]

    def release_xfer_handle(self, handle: int) -> None:
        self.released.append(handle)

    def send_notif(self, _peer: str, notice: bytes) -> None:
        self.notices.append(notice)


class Bench:
    def __init__(self) -> None:
        self.agent = Agent()
        self.sent: list[Message] = []
        self.reader = Reader(self.sent.append)
        self.reader.agent = self.agent

    def begun(self, deadline: float = 60.0) -> PendingRead:
        read = PendingRead(ReadRequest("owner", b"m", STEPS, NOTICE, deadline))
        self.reader.start(read)
        return read

    def goes(self, *states: str) -> None:
        """Poll while the steps have these states, in order."""
        self.agent.states |= dict(enumerate(states))
        self.reader.poll()


@pytest.fixture
def bench() -> Iterator[Bench]:
    yield Bench()


def test_headers_are_asked_for_once_all_embeddings_are_there(bench: Bench) -> None:
    read = bench.begun()
    bench.goes("PROC")
    assert bench.agent.read == [(PAYLOAD.address, b"")]
    bench.goes("DONE")
    assert bench.agent.read == [(PAYLOAD.address, b""), (HEADER.address, NOTICE)]
    assert bench.reader.in_later_step
    assert not read.outcome.done() and not read.ended.done()
    bench.goes("DONE", "DONE")
    assert read.outcome.result() is None and read.ended.done()
    assert bench.agent.released == [0, 1]
    assert bench.sent == []
    assert not bench.reader.busy


def test_an_owner_that_has_a_part_in_being_read_is_told_when_a_read_begins(bench: Bench) -> None:
    """It has a part if a header was not there at once, so the first read sends no notice."""
    bench.agent.at_once = True
    for _ in range(2):
        bench.begun()
        bench.goes("DONE")
        assert not bench.reader.busy and bench.agent.notices == []
        bench.agent.forget()
    bench.agent.at_once = False
    for told in ([], [READING]):
        bench.begun()
        assert bench.agent.notices == told
        bench.goes("DONE")
        bench.goes("DONE", "DONE")
        bench.agent.forget()


@pytest.mark.parametrize("states", [("ERR",), ("DONE", "ERR")], ids=["embeddings", "headers"])
def test_a_step_that_fails_fails_the_read(bench: Bench, states: tuple[str, ...]) -> None:
    read = bench.begun()
    for number in range(len(states)):
        bench.goes(*states[: number + 1])
    with pytest.raises(TransferFailed, match="reading from owner failed: ERR"):
        read.outcome.result(0)
    assert read.ended.done() and not bench.reader.busy
    assert bench.agent.released == [0, 1]


@pytest.mark.parametrize("refused", ["preparing", "preparing a header", "transferring"])
def test_a_step_that_cannot_begin_fails_the_read(bench: Bench, refused: str) -> None:
    bench.agent.refuses = refused
    read = bench.begun()
    bench.goes("DONE")
    with pytest.raises(TransferFailed, match="reading from owner failed: it is refused"):
        read.outcome.result(0)
    assert read.ended.done() and not bench.reader.busy
    assert bench.agent.released == list(range(len(bench.agent.prepared)))


def test_after_the_deadline_no_step_begins_and_the_leases_end_all_the_same(bench: Bench) -> None:
    """The memory is in use until the step has ended; then the owner receives a message."""
    read = bench.begun(deadline=0.0)
    bench.goes("PROC")
    with pytest.raises(TransferFailed, match="took longer than 0 s"):
        read.outcome.result(0)
    assert not read.ended.done() and bench.reader.has_late and bench.sent == []
    bench.goes("DONE")
    assert read.ended.done() and not bench.reader.busy
    assert bench.sent == [Message("owner", b"m", NOTICE)]
    assert len(bench.agent.read) == 1


def test_a_read_that_nobody_waits_for_any_more_ends_likewise(bench: Bench) -> None:
    read = bench.begun()
    read.outcome.cancel()
    bench.goes("DONE")
    assert read.ended.done() and not bench.reader.busy
    assert bench.sent == [Message("owner", b"m", NOTICE)]
    assert len(bench.agent.read) == 1


def test_a_last_step_that_ends_late_has_told_the_owner_itself(bench: Bench) -> None:
    read = bench.begun()
    bench.goes("DONE")
    read.deadline = 0.0
    bench.goes("DONE", "PROC")
    assert read.outcome.done() and not read.ended.done()
    bench.goes("DONE", "DONE")
    assert read.ended.done() and bench.sent == []
