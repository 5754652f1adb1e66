"""The encode worker with its real encoder, without the network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.aio import cancelled
from auricle.core.errors import (
    AuricleError,
    BadRequest,
    FeaturesMissing,
    Overloaded,
    ProcessFailed,
    WorkerUnavailable,
)
from auricle.embeddings.layout import SlabLayout, tenant_mark
from auricle.embeddings.slab import Slab
from auricle.protocol.recognition import (
    BlockFeatures,
    EncodeRequest,
    SpoiledSlot,
    WindowFeatures,
    WindowRef,
)
from auricle.workers.encode.encoder import MelBlock
from auricle.workers.encode.passes import PassWithdrawn
from auricle.workers.encode.store import EmbeddingStore, Identity
from auricle.workers.encode.windowed import WindowedEncoder
from auricle.workers.encode.worker import EncodeWorker, EncodeWorkerMetrics
from auricle_testing.server import ROOT
from auricle_testing.slabs import KINDS, content, slab_in

pytestmark = pytest.mark.unit
CHECKPOINT = open_checkpoint(ROOT / "models/demo")
GEOMETRY = CHECKPOINT.geometry


def key(name: str, tenant: str = "t") -> str:
    return name * 16 + tenant_mark(tenant)


FIRST, SECOND, THIRD = key("aa"), key("bb"), key("cc")


@dataclass
class Running:
    worker: EncodeWorker
    slab: Slab
    loop: asyncio.Task[None]
    store: EmbeddingStore

    def embeddings(self, ref: WindowRef) -> np.ndarray:
        return content(self.slab, ref.slot, ref.length).view(np.float32)


@pytest.fixture(params=KINDS)
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    layout = SlabLayout(GEOMETRY.hidden_size, 4, GEOMETRY.window_embeddings)
    slab = slab_in(request.param, layout, 8)
    store = EmbeddingStore(slab, 60.0)
    worker = EncodeWorker(
        EncodeWorkerSettings(),
        GEOMETRY,
        WindowedEncoder(CHECKPOINT, "float32", "cpu", threads=1),
        store,
        Identity("agent", b"", CHECKPOINT.fingerprint, "float32"),
        EncodeWorkerMetrics(CollectorRegistry(), store),
        lambda: None,
    )
    loop = asyncio.create_task(worker.run())
    yield Running(worker, slab, loop, store)
    await cancelled([loop])
    worker.device.close()


def block(key: str, frames: int, *, final: bool, sent: bool = True) -> BlockFeatures:
    values = np.random.default_rng(frames).uniform(-8, 2, (frames, 128)).astype(np.float32)
    return BlockFeatures(key, frames, final, values.tobytes() if sent else None)


def window(name: str, *blocks: BlockFeatures) -> WindowFeatures:
    return WindowFeatures(key(name), -6.0, blocks, partial=True)


def request(name: str, *blocks: BlockFeatures, ahead: bool = False) -> EncodeRequest:
    return EncodeRequest("s", "t", (window(name, *blocks),), ahead=ahead)


async def test_seconds_encoded_ahead_need_not_be_sent_or_convolved_again(running: Running) -> None:
    worker = running.worker
    first, last = block(FIRST, 100, final=True), block(SECOND, 60, final=False)
    at_once = await worker.encode(request("11", first, last))
    other = block(THIRD, 100, final=True)
    ahead = await worker.encode(request("22", other, ahead=True))
    assert (ahead.windows, ahead.encoded, ahead.convolved) == ((), 0, 1)
    then = await worker.encode(request("33", block(THIRD, 100, final=True, sent=False), last))
    assert then.convolved == 1
    # A convolution of two blocks rounds differently from one of one block, within the guarantee.
    np.testing.assert_allclose(
        running.embeddings(then.windows[0]), running.embeddings(at_once.windows[0]), atol=1e-4
    )


async def test_what_came_ahead_before_is_not_convolved_again(running: Running) -> None:
    ahead = request("11", block(FIRST, 100, final=True), ahead=True)
    await running.worker.encode(ahead)
    assert (await running.worker.encode(ahead)).convolved == 0


async def test_what_may_still_change_cannot_come_ahead(running: Running) -> None:
    with pytest.raises(BadRequest, match=f"block {SECOND} is not final"):
        await running.worker.encode(request("11", block(SECOND, 60, final=False), ahead=True))


async def test_a_job_that_fails_fails_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is encoded after it, which shows that the device works."""

    def convolve(_encoder: WindowedEncoder, blocks: Sequence[MelBlock]) -> list[torch.Tensor]:
        raise RuntimeError("this one is unlucky")

    encode = running.worker._pass._encoder.encode
    with monkeypatch.context() as patched:
        patched.setattr(running.worker._pass._encoder, "encode", lambda _windows: [])
        patched.setattr(WindowedEncoder, "convolve", convolve)
        with pytest.raises(RuntimeError, match="unlucky"):
            await running.worker.encode(request("11", block(FIRST, 60, final=False)))
    assert running.store.slots_in_use() == 0
    assert running.worker._pass._encoder.encode == encode
    await running.worker.encode(request("22", block(FIRST, 60, final=False)))
    assert not running.loop.done()


async def test_a_device_that_fails_everything_moves_the_jobs_and_ends_the_worker(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error that is known to break a GPU, the process would not wait for a second one."""

    def convolve(_encoder: WindowedEncoder, blocks: Sequence[MelBlock]) -> list[torch.Tensor]:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(WindowedEncoder, "convolve", convolve)
    jobs = [
        running.worker.encode(request(name, block(key(name), 60, final=False)))
        for name in ("11", "22", "33")
    ]
    for result in await asyncio.gather(*jobs, return_exceptions=True):
        assert isinstance(result, WorkerUnavailable)
    with pytest.raises(ProcessFailed, match="fails on silence too: could not create"):
        await running.loop
    with pytest.raises(WorkerUnavailable):
        await running.worker.encode(request("44", block(key("44"), 60, final=False)))
    assert running.worker.meter.take().failed_per_second > 0


async def test_a_window_that_a_request_names_twice_is_encoded_and_leased_once(
    running: Running,
) -> None:
    """Keys carry no position: two windows of digital silence have one key."""
    twice = (window("11", block(FIRST, 60, final=False)),) * 2
    for encoded in (1, 0):
        reply = await running.worker.encode(EncodeRequest("s", "t", twice))
        assert reply.windows[0] == reply.windows[1]
        assert reply.encoded == encoded
    assert running.store.open_leases() == 2


async def test_a_slot_whose_header_was_overwritten_is_encoded_again(running: Running) -> None:
    asked = request("11", block(FIRST, 60, final=False))
    (right,) = (await running.worker.encode(asked)).windows
    expected = running.embeddings(right)
    running.slab.header(right.slot)[:] = 0
    (again,) = (await running.worker.encode(asked)).windows
    running.slab.verify(again.slot, again.key, again.generation, again.length)
    np.testing.assert_array_equal(running.embeddings(again), expected)


async def test_values_that_are_not_finite_are_never_stored(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = running.worker._pass._encoder
    attend = encoder.attend

    def broken_once(windows: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        monkeypatch.setattr(encoder, "attend", attend)
        return [torch.full_like(one, float("nan")) for one in attend(windows)]

    monkeypatch.setattr(encoder, "attend", broken_once)
    asked = request("11", block(FIRST, 60, final=False))
    with pytest.raises(AuricleError, match="not finite"):
        await running.worker.encode(asked)
    assert running.store.slots_in_use() == 0
    assert (await running.worker.encode(asked)).encoded == 1


async def test_a_slot_that_a_reader_reports_is_encoded_again(running: Running) -> None:
    """Its header is correct, so only the reader can detect it."""
    asked = request("11", block(FIRST, 60, final=False))
    (right,) = (await running.worker.encode(asked)).windows
    expected = running.embeddings(right)
    running.slab.fill(right.slot, np.zeros_like(expected).view(np.uint8).reshape(-1))
    (cached,) = (await running.worker.encode(asked)).windows
    assert cached.slot == right.slot
    of_another = SpoiledSlot("another agent", right.slot, right.generation)
    assert (await running.worker.encode(replace(asked, spoiled=(of_another,)))).encoded == 0
    reported = SpoiledSlot(right.agent, right.slot, right.generation)
    (again,) = (await running.worker.encode(replace(asked, spoiled=(reported,)))).windows
    np.testing.assert_array_equal(running.embeddings(again), expected)
    # Its readers still read the old slot.
    assert again.slot != right.slot
    assert running.store.slots_in_use() == 2
    running.store.release(b"1,2,3")
    assert running.store.slots_in_use() == 1
    # A late report concerns content that no longer exists.
    assert (await running.worker.encode(replace(asked, spoiled=(reported,)))).encoded == 0


async def test_leases_granted_before_features_were_missed_are_given_back(running: Running) -> None:
    stored = window("11", block(FIRST, 60, final=False))
    reply = await running.worker.encode(EncodeRequest("s", "t", (stored,)))
    running.store.release(str(reply.windows[0].lease).encode())
    unknown = window("22", block(key("dd"), 100, final=True, sent=False))
    with pytest.raises(FeaturesMissing):
        await running.worker.encode(EncodeRequest("s", "t", (stored, unknown)))
    assert running.store.open_leases() == 0


async def test_leases_granted_before_the_slab_was_full_are_given_back(running: Running) -> None:
    """Otherwise a client that retries would keep it full."""
    few = tuple(window(f"{i:02}", block(key(f"{i:02}"), 60, final=False)) for i in range(9))
    with pytest.raises(Overloaded):
        await running.worker.encode(EncodeRequest("s", "t", few))
    assert running.store.open_leases() == 0


async def test_a_window_without_a_slot_disturbs_no_other_of_its_batch(running: Running) -> None:
    names = [f"{i:02}" for i in range(8)]
    eight = tuple(window(name, block(key(name), 60, final=False)) for name in names)
    all_slots = asyncio.create_task(running.worker.encode(EncodeRequest("s", "t", eight)))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="all 8 slots"):
        await running.worker.encode(request("99", block(key("99"), 60, final=False)))
    assert {ref.key for ref in (await all_slots).windows} == {key(name) for name in names}
    assert running.store.slots_in_use() == running.store.open_leases() == 8


async def test_windows_of_one_batch_are_what_each_is_alone(running: Running) -> None:
    """A batch's windows are checked, copied and published together."""
    asked = [
        request(name, block(key(name), frames, final=False))
        for name, frames in (("11", 60), ("22", 80), ("33", 24))
    ]
    together = await asyncio.gather(*(running.worker.encode(one) for one in asked))
    for one, reply in zip(asked, together, strict=True):
        (ref,) = reply.windows
        running.slab.verify(ref.slot, ref.key, ref.generation, ref.length)
        embeddings = running.embeddings(ref)
        running.store.evict([SpoiledSlot("agent", ref.slot, ref.generation)], "agent")
        (alone,) = (await running.worker.encode(one)).windows
        np.testing.assert_allclose(embeddings, running.embeddings(alone), atol=1e-4)


async def test_only_leases_keep_a_slot_once_all_who_waited_have_theirs(running: Running) -> None:
    asked = request("11", block(FIRST, 60, final=False))
    replies = await asyncio.gather(*(running.worker.encode(asked) for _ in range(2)))
    leases = {reply.windows[0].lease for reply in replies}
    assert len(leases) == 2 and running.store.slots_in_use() == running.store.state().leased == 1
    running.store.release(b",".join(str(lease).encode() for lease in leases))
    assert running.store.state().leased == 0


class Gate:
    """Encodes after `opened`; `began` is set when a pass begins. Passes record their windows."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.opened = threading.Event(), threading.Event()
        self.passes: list[int] = []
        self.left_early = 0
        self._encoder = running.worker._pass._encoder
        self._attend = self._encoder.attend
        monkeypatch.setattr(self._encoder, "attend", self.attend)

    def attend(self, windows: Sequence[Any]) -> list[torch.Tensor]:
        self.passes.append(len(windows))
        self.began.set()
        try:
            while not self.opened.wait(0.001):
                self._encoder.between_layers()
        except PassWithdrawn:
            self.left_early += 1
            raise
        return self._attend(windows)

    async def pass_began(self) -> None:
        await asyncio.to_thread(self.began.wait)


async def test_a_window_whose_caller_left_before_its_pass_is_not_encoded(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(running, monkeypatch)
    staying, leaving = (
        asyncio.create_task(running.worker.encode(request(name, block(one, 60, final=False))))
        for name, one in (("11", FIRST), ("22", SECOND))
    )
    running.worker._batcher.max_batch = 1
    await gate.pass_began()
    await cancelled([leaving])
    gate.opened.set()
    await staying
    await running.worker.encode(request("33", block(THIRD, 60, final=False)))
    assert gate.passes == [1, 1] and running.store.slots_in_use() == 2


async def test_a_pass_ends_early_once_all_its_callers_have_left(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request does not wait for it, for the same window or another one."""
    gate = Gate(running, monkeypatch)
    leaving = asyncio.create_task(
        running.worker.encode(request("11", block(FIRST, 60, final=False)))
    )
    await gate.pass_began()
    await cancelled([leaving])
    gate.began.clear()
    same = asyncio.create_task(running.worker.encode(request("11", block(FIRST, 60, final=False))))
    await gate.pass_began()
    gate.opened.set()
    reply = await same
    assert gate.left_early == 1 and gate.passes == [1, 1]
    assert (running.store.slots_in_use(), running.store.open_leases()) == (1, 1)
    running.store.release(str(reply.windows[0].lease).encode())
    assert running.store.state().leased == 0


async def test_a_pass_goes_on_for_the_callers_that_stay(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result for cancelled requests is kept, and no lease or request holds its slot."""
    gate = Gate(running, monkeypatch)
    windows = [request("11", block(FIRST, 60, final=False))] * 2
    windows += [request("22", block(SECOND, 60, final=False))]
    staying, leaving, other = (asyncio.create_task(running.worker.encode(one)) for one in windows)
    await gate.pass_began()
    await cancelled([leaving, other])
    gate.opened.set()
    reply = await staying
    assert gate.left_early == 0 and gate.passes == [2]
    assert running.store.open_leases() == 1
    running.store.release(str(reply.windows[0].lease).encode())
    assert (running.store.slots_in_use(), running.store.state().leased) == (2, 0)


async def test_leases_are_given_back_if_the_caller_leaves(running: Running) -> None:
    stored = window("11", block(FIRST, 60, final=False))
    await running.worker.encode(EncodeRequest("s", "t", (stored,)))
    both = (stored, window("22", block(SECOND, 60, final=False)))
    leaving = asyncio.create_task(running.worker.encode(EncodeRequest("s", "t", both)))
    await asyncio.sleep(0)
    assert running.store.open_leases() == 2
    await cancelled([leaving])
    assert running.store.open_leases() == 1


@pytest.mark.parametrize("what", ["key", "supersedes", "block"])
async def test_no_request_can_name_what_is_another_tenants(running: Running, what: str) -> None:
    """A tenant never gets embeddings of another tenant's audio, for any request."""
    theirs = window("11", block(FIRST, 100, final=True))
    (kept,) = (await running.worker.encode(EncodeRequest("s", "t", (theirs,)))).windows
    own = WindowFeatures(
        key("22", "other"), -6.0, (block(key("33", "other"), 100, final=True),), partial=True
    )
    if what == "block":
        named = replace(own, blocks=(replace(theirs.blocks[0], log_mel=None),))
    else:
        named = replace(own, **{what: kept.key})
    with pytest.raises(BadRequest, match="not one of the request's tenant"):
        await running.worker.encode(EncodeRequest("s", "other", (named,)))


async def test_what_is_no_key_is_refused_without_repeating_it(running: Running) -> None:
    with pytest.raises(BadRequest, match="is not 48 hex digits") as caught:
        await running.worker.encode(
            EncodeRequest("s", "t", (replace(window("11"), key="x" * 9999),))
        )
    assert len(str(caught.value)) < 200


async def test_a_batch_too_large_for_the_device_is_encoded_in_parts_and_halved_once(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, sizes = running.worker._pass.run, list[int]()

    def passes(jobs: Sequence[Any]) -> Any:
        sizes.append(len(jobs))
        if len(jobs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return run(jobs)

    monkeypatch.setattr(running.worker._pass, "run", passes)
    names = [f"{number}{number}" for number in range(1, 9)]
    replies = await asyncio.gather(
        *(running.worker.encode(request(n, block(FIRST, 60, final=False))) for n in names)
    )
    assert len(replies) == 8
    assert max(sizes) > 2
    assert running.worker._batcher.max_batch == max(sizes) // 2
    assert "does not fit into the device's memory (CUDA out of memory. Tried" in caplog.text


async def test_a_device_that_is_lost_ends_the_process_at_once(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def end_if_sticky(error: BaseException, _what: str) -> None:
        ended.append(str(error))

    def passes(_jobs: Sequence[Any]) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("auricle.process.device.end_if_sticky", end_if_sticky)
    monkeypatch.setattr(running.worker._pass, "run", passes)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        await running.worker.encode(request("11", block(FIRST, 60, final=False)))
    assert ended
