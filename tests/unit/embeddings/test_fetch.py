"""Windows arrive in the landing slab verified or not at all. A copy in memory replaces NIXL."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from auricle.core.errors import Overloaded, TransferFailed, WindowsMissing, WindowsSpoiled
from auricle.embeddings.fetch import WindowFetcher
from auricle.embeddings.layout import HEADER_BYTES, SlabLayout
from auricle.embeddings.reads import PendingRead, ReadRequest
from auricle.process import device_faults
from auricle.protocol.diagnosis import RunningModel
from auricle.protocol.recognition import DecodeWindow, WindowRef
from auricle_testing.slabs import KINDS, content, slab_in

pytestmark = pytest.mark.unit
LAYOUT = SlabLayout(width=4, item_bytes=4, max_length=8)
A, B, C = "aa" * 24, "bb" * 24, "cc" * 24


class CopyEndpoint:
    """Copies between slabs of this process; can fail, stall, or end late.

    `between` is called after each step of a read, and may change the source of the next step.
    """

    def __init__(self) -> None:
        self.requests: list[ReadRequest] = []
        self.notices: list[tuple[str, bytes]] = []
        self.fail: str | None = None
        self.held: list[PendingRead] | None = None
        self.begun = asyncio.Event()
        self.between: Callable[[], None] = lambda: None

    def begin(self, request: ReadRequest) -> PendingRead:
        read = PendingRead(request)
        self.requests.append(request)
        if self.held is not None:
            self.held.append(read)
            self.begun.set()
        elif self.fail:
            read.ended.set_result(None)
            read.outcome.set_exception(TransferFailed(self.fail))
        else:
            self.finish(read)
        return read

    def notify(self, agent: str, _metadata: bytes, notice: bytes) -> None:
        self.notices.append((agent, notice))

    def finish(self, read: PendingRead) -> None:
        for step in read.request.steps:
            for source, target in zip(step.remote, step.local, strict=True):
                ctypes.memmove(target.address, source.address, target.size)
            self.between()
        read.ended.set_result(None)
        read.outcome.set_result(None)


class Bench:
    """A remote slab with windows in it, and a fetcher."""

    kind = "host"  # default kind of slabs

    def __init__(self, slots: int = 4, remote: str = "", local: str = "") -> None:
        self.remote = slab_in(remote or self.kind, LAYOUT, 4)
        self.local = slab_in(local or self.kind, LAYOUT, slots)
        self.endpoint = CopyEndpoint()
        self.fetcher = WindowFetcher(
            self.local,
            self.endpoint,  # type: ignore[arg-type]
            RunningModel("f", "float32"),
            deadline_seconds=60.0,
        )

    def window(self, name: str, slot: int = 0, **changed: object) -> DecodeWindow:
        payload = np.arange(3 * 16, dtype=np.uint8)
        self.remote.write(slot, name, 5, payload)
        place = self.remote.regions_of(slot, 3)
        fields: dict[str, object] = {
            **{"key": name, "fingerprint": "f", "dtype": "float32", "length": 3, "agent": "enc"},
            **{"agent_metadata": b"", "address": place.payload.address, "size": place.payload.size},
            **{"device": 0, "memory": "DRAM", "header": place.header.address},
            **{"slot": slot, "generation": 5, "lease": slot + 70},
        }
        return DecodeWindow(name, 3, False, WindowRef(**(fields | changed)))  # type: ignore[arg-type]

    def without_ref(self, key: str, *, partial: bool = False) -> DecodeWindow:
        return DecodeWindow(key, 3, partial)


async def fetch(bench: Bench, *windows: DecodeWindow) -> int:
    async with bench.fetcher.pinned(windows) as fetched:
        return fetched.bytes_read


async def settled() -> None:
    """Let the event loop run the callback that frees the slots."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture(params=KINDS, autouse=True)
def both_kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with slabs in host memory and with slabs on a device."""
    monkeypatch.setattr(Bench, "kind", request.param)


@pytest.mark.parametrize(("remote", "local"), list(itertools.product(KINDS, repeat=2)))
async def test_windows_of_one_worker_are_read_at_once_and_their_leases_released(
    remote: str, local: str
) -> None:
    bench = Bench(remote=remote, local=local)
    async with bench.fetcher.pinned([bench.window(A, 0), bench.window(B, 1)]) as fetched:
        assert [w.key for w in fetched.windows] == [A, B]
        assert fetched.bytes_read == 2 * LAYOUT.content_bytes(3)
        for window in fetched.windows:
            bench.local.verify(window.slot, window.key, window.generation, 3)
            assert list(content(bench.local, window.slot, 3)) == list(range(48))
        assert bench.fetcher.table.pinned == 2
    assert bench.fetcher.table.pinned == 0
    assert [r.notice for r in bench.endpoint.requests] == [b"70,71"]


async def test_a_window_that_is_here_is_not_read_again() -> None:
    bench = Bench()
    await fetch(bench, bench.window(A))
    assert await fetch(bench, bench.without_ref(A)) == 0
    assert len(bench.endpoint.requests) == 1


async def test_the_lease_of_a_window_that_need_not_be_read_is_given_back() -> None:
    """Otherwise it would hold a slot of the encode worker until its deadline."""
    bench = Bench()
    await fetch(bench, bench.window(A))
    assert bench.endpoint.notices == []
    await fetch(bench, bench.window(A, lease=99), bench.window(B, 1))
    assert bench.endpoint.notices == [("enc", b"99")]
    assert [r.notice for r in bench.endpoint.requests] == [b"70", b"71"]


async def test_a_window_nobody_has_is_named() -> None:
    bench = Bench()
    with pytest.raises(WindowsMissing, match="no location") as caught:
        await fetch(bench, bench.window(A), bench.without_ref(B))
    assert caught.value.keys == (B,)
    assert bench.fetcher.table.pinned == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fingerprint": "other"}, "encoded by checkpoint other"),
        ({"dtype": "bfloat16"}, "as bfloat16"),
        ({"size": 1}, "another window or size"),
        ({"key": B}, "another window or size"),
        ({"generation": 6}, "generation 5, expected 6"),
    ],
)
async def test_what_is_not_the_window_asked_for_is_refused(
    changed: dict[str, object], said: str
) -> None:
    bench = Bench()
    with pytest.raises(WindowsMissing, match=said):
        await fetch(bench, bench.window(A, **changed))
    assert bench.fetcher.table.in_use == 0


async def test_torn_content_is_refused_and_can_be_read_again() -> None:
    bench = Bench(remote="host", local="host")  # only host slabs have a checksum
    window = bench.window(A)
    torn = content(bench.remote, 0, 3)
    torn[6] ^= 1
    bench.remote.fill(0, torn)
    with pytest.raises(WindowsMissing, match="checksum"):
        await fetch(bench, window)
    assert await fetch(bench, bench.window(A))


@pytest.mark.parametrize("begun_only", [True, False], ids=["being written", "written"])
async def test_a_slot_that_got_other_content_while_it_was_read_is_refused(begun_only: bool) -> None:
    """As after a lease that ended during the read. The headers are read last and detect it."""
    bench = Bench()
    windows = [bench.window(A, 0), bench.window(B, 1)]

    def reused() -> None:
        bench.remote.invalidate(1)
        if not begun_only:
            bench.remote.write(1, B, 6, np.zeros(3 * 16, np.uint8))

    bench.endpoint.between = reused
    with pytest.raises(WindowsSpoiled) as caught:
        await fetch(bench, *windows)
    assert caught.value.keys == (B,)
    assert bench.fetcher.table.find(A) is not None
    assert bench.fetcher.table.find(B) is None


async def test_no_header_is_read_before_the_embeddings_of_all_windows() -> None:
    bench = Bench()
    windows = [bench.window(A, 0), bench.window(B, 1)]
    await fetch(bench, *windows)
    (request,) = bench.endpoint.requests
    sizes = [[region.size for region in step.remote] for step in request.steps]
    assert sizes == [[LAYOUT.payload_bytes(3)] * 2, [HEADER_BYTES] * 2]


async def test_a_slot_that_is_being_read_into_has_no_header() -> None:
    """vLLM's processes map it, and must not confuse the old content with the new one."""
    bench = Bench(slots=1)
    await fetch(bench, bench.window(A))
    bench.endpoint.held = []
    reading = asyncio.create_task(fetch(bench, bench.window(B, 1)))
    await bench.endpoint.begun.wait()
    assert not bench.local.header(0).any()
    bench.endpoint.finish(bench.endpoint.held[0])
    await reading
    assert bench.local.header(0).any()


async def test_spoiled_windows_are_told_apart_from_the_others() -> None:
    bench = Bench()
    good, bad = bench.window(A, 0), bench.window(B, 1)
    bench.remote.invalidate(1)
    with pytest.raises(WindowsSpoiled, match="magic 00000000") as caught:
        await fetch(bench, good, bad)
    assert caught.value.keys == (B,)
    assert bench.fetcher.table.find(A) is not None
    assert (bench.fetcher.table.in_use, bench.fetcher.table.pinned) == (1, 0)


async def test_a_landing_slot_that_vllm_refuses_is_read_again() -> None:
    """Otherwise every later decode with this window would fail."""
    bench = Bench()
    with pytest.raises(WindowsMissing):
        async with bench.fetcher.pinned([bench.window(A), bench.window(B, 1)]) as fetched:
            bench.local.invalidate(fetched.windows[0].slot)
            raise WindowsMissing((A, B), "refused at admission")
    assert bench.fetcher.table.find(A) is None
    assert bench.fetcher.table.find(B) is not None
    assert await fetch(bench, bench.window(A))


async def test_a_failed_read_names_its_windows() -> None:
    bench = Bench()
    bench.endpoint.fail = "peer died"
    with pytest.raises(WindowsMissing, match="peer died") as caught:
        await fetch(bench, bench.window(A), bench.window(B, 1))
    assert caught.value.keys == (A, B)
    await settled()
    assert bench.fetcher.table.in_use == 0


async def test_a_worker_whose_device_is_lost_ends_instead_of_failing_every_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    really = device_faults.end_if_sticky
    monkeypatch.setattr(
        device_faults, "end_if_sticky", lambda error, what: really(error, what, ended.append)
    )
    bench = Bench(local="device")

    def lost() -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    bench.endpoint.fail = "the transfer failed"
    with pytest.raises(WindowsMissing):
        await fetch(bench, bench.window(A))
    assert ended == []  # the device answers, so only the transfer failed
    monkeypatch.setattr(bench.local, "synchronize", lost)
    with pytest.raises(WindowsMissing):
        await fetch(bench, bench.window(A))
    assert ended == [1]


async def test_slots_of_a_read_that_timed_out_stay_out_of_use_until_it_ends() -> None:
    bench = Bench(slots=1)
    bench.endpoint.held = []
    window = bench.window(A)

    first = asyncio.create_task(fetch(bench, window))
    await bench.endpoint.begun.wait()
    (read,) = bench.endpoint.held
    read.outcome.set_exception(TransferFailed("took too long"))
    with pytest.raises(WindowsMissing, match="took too long"):
        await first
    bench.endpoint.held = None
    with pytest.raises(Exception, match="all 1 slots"):
        await fetch(bench, window)
    read.ended.set_result(None)
    await settled()
    await fetch(bench, window)


async def test_two_requests_for_one_window_share_the_read() -> None:
    bench = Bench()
    bench.endpoint.held = []
    window = bench.window(A)

    both = [asyncio.create_task(fetch(bench, window)) for _ in range(2)]
    await bench.endpoint.begun.wait()
    await asyncio.sleep(0)
    bench.endpoint.finish(bench.endpoint.held[0])
    assert sorted([await t for t in both]) == [0, LAYOUT.content_bytes(3)]
    assert len(bench.endpoint.requests) == 1


async def test_a_window_that_a_decode_names_twice_is_read_once() -> None:
    """Keys carry no position: two windows of digital silence have one key."""
    bench = Bench()
    again = bench.window(A, 0, lease=99)
    async with bench.fetcher.pinned([bench.window(A), bench.window(B, 1), again]) as fetched:
        assert [w.key for w in fetched.windows] == [A, B, A]
        assert fetched.windows[0] == fetched.windows[2]
    assert [r.notice for r in bench.endpoint.requests] == [b"70,71"]
    assert bench.endpoint.notices == [("enc", b"99")]
    assert bench.fetcher.table.pinned == 0


async def test_of_three_requests_for_a_window_whose_read_fails_one_reads_it_again() -> None:
    """Both waiting requests find it missing at the same time, and both want to read it."""
    bench = Bench()
    bench.endpoint.held = []
    window = bench.window(A)

    first = asyncio.create_task(fetch(bench, window))
    others = [asyncio.create_task(fetch(bench, window)) for _ in range(2)]
    await bench.endpoint.begun.wait()
    await settled()
    failing = bench.endpoint.held.pop()
    failing.ended.set_result(None)
    failing.outcome.set_exception(TransferFailed("took too long"))
    with pytest.raises(WindowsMissing):
        await first
    await settled()
    (read,) = bench.endpoint.held
    bench.endpoint.finish(read)
    assert sorted([await t for t in others]) == [0, LAYOUT.content_bytes(3)]
    assert bench.fetcher.table.pinned == 0


async def test_a_request_that_finds_no_slot_leaves_the_reads_of_others_alone() -> None:
    """Another request may still read windows that this request did not begin to read."""
    bench = Bench(slots=1)
    bench.endpoint.held = []
    only = bench.window(A)
    reading = asyncio.create_task(fetch(bench, only))
    await bench.endpoint.begun.wait()
    with pytest.raises(Overloaded):
        await fetch(bench, bench.window(B, 1), bench.window(C, 2))
    waiting = asyncio.create_task(fetch(bench, only))
    await settled()
    (read,) = bench.endpoint.held
    bench.endpoint.finish(read)
    await reading
    await waiting
    assert len(bench.endpoint.requests) == 1


async def test_no_other_request_reads_what_a_request_is_about_to_read() -> None:
    """Windows from its second encode worker are read after the ones from the first."""
    bench = Bench()
    bench.endpoint.held = []
    mine = [bench.window(A, 0), bench.window(B, 1, agent="other")]
    both = asyncio.create_task(fetch(bench, *mine))
    await bench.endpoint.begun.wait()
    meanwhile = asyncio.create_task(fetch(bench, mine[1]))
    finished = 0
    while finished < 2:
        await settled()
        bench.endpoint.finish(bench.endpoint.held[finished])
        finished += 1
    await both
    await meanwhile
    assert len(bench.endpoint.requests) == 2


async def test_leases_of_windows_that_are_not_read_after_all_are_given_back() -> None:
    """Each attempt would hold slots of the encode worker for half a minute."""
    bench = Bench()
    with pytest.raises(WindowsMissing):
        await fetch(bench, bench.window(A), bench.without_ref(B))
    assert bench.endpoint.notices == [("enc", b"70")]
    small = Bench(slots=1)
    with pytest.raises(Overloaded):
        await fetch(small, small.window(A), small.window(B, 1))
    assert small.endpoint.notices == [("enc", b"70,71")]


async def test_leases_of_a_cancelled_request_are_given_back() -> None:
    bench = Bench()
    bench.endpoint.held = []
    mine = [bench.window(A, 0), bench.window(B, 1, agent="other")]
    both = asyncio.create_task(fetch(bench, *mine))
    await bench.endpoint.begun.wait()
    both.cancel()
    with pytest.raises(asyncio.CancelledError):
        await both
    assert ("other", b"71") in bench.endpoint.notices


async def test_a_partial_window_is_the_first_to_go() -> None:
    bench = Bench(slots=2)
    whole = bench.window(A, 0)
    partial = DecodeWindow(B, 3, True, bench.window(B, 1).ref)
    await fetch(bench, whole, partial)
    await fetch(bench, bench.window("cc" * 24, 2))
    assert bench.fetcher.table.find(A) is not None
    assert bench.fetcher.table.find(B) is None


async def test_a_read_that_the_thread_never_settles_has_a_deadline_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its slots stay unused, because the transfer may still be running."""
    monkeypatch.setattr("auricle.embeddings.landing._THREAD_SECONDS", 0.0)
    bench = Bench()
    bench.fetcher._deadline_seconds = 0.01
    bench.endpoint.held = []
    with pytest.raises(WindowsMissing, match="the NIXL thread took longer"):
        await fetch(bench, bench.window(A))
    (read,) = bench.endpoint.held
    assert read.outcome.cancelled()
    assert bench.fetcher.table.find(A) is None
