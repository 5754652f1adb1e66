"""Embeddings stay on the device, which has fake memory and a fake driver library."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from auricle.config.settings import PdWorkerSettings
from auricle.core.errors import (
    AuricleError,
    ProcessFailed,
    RegistrationFailed,
    SettingsError,
    TransferFailed,
)
from auricle.embeddings import cuda, placement, slabs
from auricle.embeddings.cuda import CudaDriver, CudaMemory
from auricle.embeddings.layout import SlabLayout
from auricle.embeddings.memory import DeviceSlab, HostSlab, Mapped
from auricle.embeddings.nixl import NixlEndpoint, cuda_majors, start_endpoint
from auricle.embeddings.placement import slab_device, start_on_device, why_not_on
from auricle.embeddings.slabs import FakeDeviceMemory
from auricle.launcher.config import load_config, settings_for
from auricle.workers.encode.store import EmbeddingStore, Identity
from auricle.workers.pd import main
from auricle_testing.server import ROOT
from auricle_testing.slabs import KINDS, content, slab_in

pytestmark = pytest.mark.unit
LAYOUT = SlabLayout(width=4, item_bytes=4, max_length=8)
A, B = "aa" * 24, "bb" * 24
IDENTITY = Identity("agent", b"", "f", "float32")


class Queued(FakeDeviceMemory):
    """Runs queued operations only at synchronization, as a device may."""

    def __init__(self, block: Mapped) -> None:
        super().__init__(block)
        self.queue: list[Callable[[], None]] = []

    def put(self, at: int, rows: torch.Tensor) -> None:
        self.queue.append(lambda: super(Queued, self).put(at, rows))

    def synchronize(self) -> None:
        super().synchronize()
        for work in self.queue:
            work()
        self.queue.clear()


def queued_slab(count: int = 4) -> tuple[DeviceSlab, Queued]:
    payloads, headers = DeviceSlab.sizes(LAYOUT, count)
    memory = Queued(Mapped(payloads))
    return DeviceSlab(LAYOUT, count, Mapped(headers), memory), memory


def rows(value: float, length: int = 3) -> torch.Tensor:
    return torch.full((length, LAYOUT.width), float(value))


def test_a_batch_is_waited_for_once_and_has_headers_only_then() -> None:
    slab, memory = queued_slab()
    store = EmbeddingStore(slab, 30.0)
    both = [store.reserve(key, 3, partial=False, supersedes=None, now=0.0) for key in (A, B)]
    at_check: list[bool] = []

    def check() -> None:
        at_check.extend(bool(slab.header(one.slot.index).any()) for one in both)
        assert not memory.queue

    store.publish([(both[0], rows(1)), (both[1], rows(2))], check)
    assert at_check == [False, False] and memory.synchronized == 1
    for one, value in zip(both, (1, 2), strict=True):
        ref = store.reuse(one.key, IDENTITY, 0.0)
        assert ref is not None
        slab.verify(ref.slot, one.key, ref.generation, 3)
        assert set(content(slab, ref.slot, 3).view(np.float32)) == {value}


def test_what_a_check_refuses_is_never_found() -> None:
    slab, _ = queued_slab()
    store = EmbeddingStore(slab, 30.0)
    one = store.reserve(A, 3, partial=False, supersedes=None, now=0.0)

    def refuse() -> None:
        raise AuricleError("not finite")

    with pytest.raises(AuricleError, match="not finite"):
        store.publish([(one, rows(float("nan")))], refuse)
    store.abandon([one])
    assert store.reuse(A, IDENTITY, 0.0) is None
    assert not slab.header(one.slot.index).any() and store.slots_in_use() == 0


def test_headers_alone_prove_what_is_on_a_device() -> None:
    slab = slab_in("device", LAYOUT, 2)
    slab.write(1, A, 7, np.zeros(48, np.uint8))
    slab.fill(1, rows(5))
    slab.verify(1, A, 7, 3)  # without a checksum, which would copy the embeddings to the host
    slab.invalidate(1)
    with pytest.raises(TransferFailed, match="magic"):
        slab.verify(1, A, 7, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_gathers_slots_into_memory_of_its_own(kind: str) -> None:
    """vLLM keeps windows for longer than the slots are pinned."""
    slab = slab_in(kind, LAYOUT, 3)
    for index, (key, value) in enumerate(((A, 1), (B, 2))):
        slab.write(index, key, 1, rows(value, 2 + index).numpy().view(np.uint8).reshape(-1))
    theirs = slabs.attach(slabs.export(slab))
    slab.unlink()
    theirs.open()
    gathered = [torch.as_tensor(one) for one in theirs.gather([(1, 3), (0, 2)])]
    assert theirs.mismatch(1, B, 1, 3) is None
    slab.fill(1, np.zeros(48, np.uint8))
    assert [one.view(torch.float32).tolist() for one in gathered] == [[2.0] * 12, [1.0] * 8]
    # vLLM frees one window at a time: none may keep the memory of others alive.
    assert [one.untyped_storage().nbytes() for one in gathered] == [48, 32]
    theirs.close()


def test_rows_that_do_not_fit_are_refused() -> None:
    slab = slab_in("device", LAYOUT, 1)
    with pytest.raises(ValueError, match="144 bytes are not 1 to 8 embeddings"):
        slab.fill(0, rows(1, length=9))


def test_a_slab_is_in_host_memory_without_a_device() -> None:
    assert isinstance(slabs.new_slab(LAYOUT, 1, device=None, shared=False), HostSlab)


async def test_embeddings_cannot_stay_on_a_device_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("Common:\n  slab: device\n")
    sections = load_config(path)
    with pytest.raises(SettingsError, match="slab is device, but device is cpu: set device to"):
        settings_for("EncodeWorker", sections, str(path))
    settings = settings_for("PdWorker", sections, str(path))
    assert isinstance(settings, PdWorkerSettings)
    with pytest.raises(SettingsError, match="PdWorker: slab is device, but it has no GPU"):
        await main.landing_slab(settings, LAYOUT, None)


@pytest.mark.parametrize(
    ("device", "allowed", "nixl", "torch_cuda", "says"),
    [
        (None, "", (13,), "13.0", "it has no GPU"),
        ("cuda", "", (12,), "13.0", "CUDA 13.0, and the installed NIXL for 12: install nixl-cu13"),
        ("cuda", "", (), "12.9", "the installed NIXL for none: install nixl-cu12"),
        ("cuda", "", (13,), None, "PyTorch is built without CUDA"),
        ("cuda", "tcp,sm", (13,), "13.0", "UCX_TLS is 'tcp,sm', which leaves out memory of GPUs"),
        ("cuda", "rc,cuda_ipc", (13,), "13.0", "leaves out memory of GPUs: add cuda"),
        ("cuda", "^cuda_copy", (13,), "13.0", "leaves out memory of GPUs"),
        ("cuda", "rc,cuda_copy", (13,), "13.0", None),
        ("cuda", "all", (13,), "13.0", None),
        ("cuda", "", (12, 13), "12.9", None),
    ],
)
def test_embeddings_are_on_a_gpu_where_transfers_know_gpus(
    device: str | None,
    allowed: str,
    nixl: tuple[int, ...],
    torch_cuda: str | None,
    says: str | None,
) -> None:
    why_not = why_not_on(device, allowed, nixl, torch_cuda)
    assert why_not is None if says is None else says in (why_not or "")


def test_the_nixl_of_the_locks_is_built_for_the_cuda_of_their_pytorch() -> None:
    """Otherwise `auto` would place embeddings in host memory on every GPU."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "requirements/gpu.txt").read_text().splitlines()
        if "==" in line
    )
    runtime = pins["nvidia-cuda-runtime"]  # it comes with PyTorch
    nixl = [int(name.removeprefix("nixl-cu")) for name in pins if name.startswith("nixl-cu")]
    assert why_not_on("cuda", "", nixl, runtime) is None
    assert cuda_majors()  # here, too, its name finds it


def test_a_choice_is_heeded_or_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(placement, "cuda_majors", lambda: (13,))
    monkeypatch.setattr(slabs.torch.version, "cuda", "13.0")
    monkeypatch.delenv("UCX_TLS", raising=False)
    assert slab_device("auto", "cuda:1", "W") == slab_device("device", "cuda:1", "W") == "cuda:1"
    assert slab_device("host", "cuda", "W") is slab_device("auto", None, "W") is None
    monkeypatch.setenv("UCX_TLS", "tcp")
    assert slab_device("auto", "cuda", "W") is None
    assert (
        "Embeddings are kept in host memory instead of on the GPU: UCX_TLS is 'tcp'" in caplog.text
    )
    with pytest.raises(SettingsError, match="W: slab is device, but UCX_TLS is 'tcp'"):
        slab_device("device", "cuda", "W")


def test_memory_that_nixl_refuses_is_replaced_by_the_hosts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(placement, "slab_device", lambda choice, device, component: device)
    asked: list[str | None] = []

    def start(place: str | None) -> str:
        asked.append(place)
        if place is not None:
            raise RegistrationFailed("NIXL does not register VRAM: no peer memory")
        return "started"

    assert start_on_device("auto", "cuda", "W", start) == "started"
    assert asked == ["cuda", None]
    assert "host memory instead of on the GPU: NIXL does not register VRAM" in caplog.text
    with pytest.raises(SettingsError, match=r"W: slab is device, but NIXL .* set slab to auto"):
        start_on_device("device", "cuda", "W", start)

    def never(place: str | None) -> str:
        raise RegistrationFailed("NIXL does not register DRAM: no memory")

    with pytest.raises(RegistrationFailed, match="DRAM"):
        start_on_device("auto", None, "W", never)


def test_an_endpoint_whose_memory_is_refused_gives_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []
    slab = slab_in("device", LAYOUT, 1)
    monkeypatch.setattr(slab, "close", lambda: closed.append(True))

    def refuse(self: NixlEndpoint) -> bytes:
        raise RegistrationFailed("no")

    monkeypatch.setattr(NixlEndpoint, "start", refuse)
    with pytest.raises(RegistrationFailed):
        start_endpoint(slab, "pd")
    assert closed


async def test_without_a_gpu_embeddings_land_in_host_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "start_endpoint", lambda slab, role: (slab, role))
    slab, endpoint = await main.landing_slab(PdWorkerSettings(), LAYOUT, None)
    assert isinstance(slab, HostSlab) and slab.name
    assert endpoint == (slab, "pd")


# ── the driver ──────────────────────────────────────────────────────────────


class Library:
    """Replaces libcuda: allocations by address, and the handles of exported allocations."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.sizes: dict[int, int] = {}
        self.opened: list[int] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        calls: dict[str, Callable[..., int]] = {
            "cuMemAlloc_v2": self._allocate,
            "cuIpcGetMemHandle": self._export,
            "cuIpcOpenMemHandle_v2": self._open,
            "cuIpcCloseMemHandle": self._close,
            "cuGetErrorName": self._name,
        }
        return (lambda *_: 2) if name == self.fails else calls[name]

    def _allocate(self, address: Any, size: Any) -> int:
        address._obj.value = 0x7000
        self.sizes[0x7000] = size.value
        return 0

    def _export(self, handle: Any, address: Any) -> int:
        handle._obj.reserved[:8] = address.value.to_bytes(8, "big")  # it contains zeros
        return 0

    def _open(self, address: Any, handle: Any, flags: Any) -> int:
        assert flags.value == 1
        address._obj.value = int.from_bytes(bytes(handle)[:8], "big") + 0x1000
        self.opened.append(address._obj.value)
        return 0

    def _close(self, address: Any) -> int:
        self.opened.remove(address.value)
        return 0

    def _name(self, status: int, text: Any) -> int:
        text._obj.value = b"CUDA_ERROR_OUT_OF_MEMORY" if status == 2 else None
        return 0


def test_memory_is_allocated_exported_opened_and_closed() -> None:
    library = Library()
    driver = CudaDriver(library)
    address = driver.allocate(4096)
    handle = driver.export(address)
    assert library.sizes == {address: 4096} and len(handle) == 64
    theirs = driver.open(handle)
    assert theirs == address + 0x1000
    driver.close(theirs)
    assert library.opened == []


@pytest.mark.parametrize("fails", ["cuMemAlloc_v2", "cuIpcOpenMemHandle_v2"])
def test_what_the_driver_refuses_is_named(fails: str) -> None:
    driver = CudaDriver(Library(fails))
    with pytest.raises(ProcessFailed, match=f"{fails} returned CUDA_ERROR_OUT_OF_MEMORY"):
        driver.allocate(1 << 50)
        driver.open(ctypes.string_at(b"\0" * 64, 64))


class WithContexts(Library):
    """Like the driver, fails in a thread without a context."""

    def __init__(self, fails: str = "") -> None:
        super().__init__(fails)
        self.thread = threading.local()

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name != "cuGetErrorName" and not getattr(self.thread, "entered", False):
            return lambda *_: 201  # CUDA_ERROR_INVALID_CONTEXT
        return super().__getattr__(name)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> WithContexts:
    found = WithContexts()
    monkeypatch.setattr(cuda, "CudaDriver", lambda: CudaDriver(found))
    enter = lambda _: setattr(found.thread, "entered", True)  # noqa: E731
    monkeypatch.setattr(CudaMemory, "bind_thread", enter)
    monkeypatch.setattr(cuda.torch, "as_tensor", lambda array, **_: array)
    monkeypatch.setattr(cuda.torch.cuda, "synchronize", lambda _: None)
    return found


def test_memory_may_be_exported_and_closed_in_other_threads(library: WithContexts) -> None:
    memory = CudaMemory.allocate("cuda", 4096)
    with ThreadPoolExecutor(1) as other:
        theirs = CudaMemory.open(other.submit(memory.handle).result())
    _ = theirs.bytes
    assert len(library.opened) == 1
    with ThreadPoolExecutor(1) as other:
        other.submit(theirs.close).result()
    assert library.opened == []


def test_memory_that_could_not_be_opened_is_not_closed(library: WithContexts) -> None:
    theirs = CudaMemory.open(CudaMemory.allocate("cuda", 4096).handle())
    library.fails = "cuIpcOpenMemHandle_v2"
    with pytest.raises(ProcessFailed, match="cuIpcOpenMemHandle_v2 returned CUDA_ERROR"):
        _ = theirs.bytes
    theirs.close()
