"""The machine's GPUs, from the driver's management library, which may be absent."""

# ruff: noqa: N802 - names of the library

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from auricle.process.device_faults import (
    Gpu,
    Management,
    described,
    read_management,
    visible,
    visible_gpus,
)

pytestmark = pytest.mark.unit
GIB = 1 << 30
H100 = Gpu("NVIDIA H100 80GB HBM3", 80 * GIB, (9, 0))
L4 = Gpu("NVIDIA L4", 24 * GIB, (8, 9))


class NVMLError(Exception):
    """The same as in `pynvml`."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801 - its name
    pass


class Library:
    """A fake `pynvml`; a GPU or a whole driver may raise an error instead."""

    NVMLError = NVMLError
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound

    def __init__(self, *gpus: Gpu | NVMLError, fails: NVMLError | None = None) -> None:
        self.gpus, self.fails, self.open = gpus, fails, 0

    def nvmlInit(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.65.06"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        found = self.gpus[index]
        if isinstance(found, NVMLError):
            raise found
        return found

    def nvmlDeviceGetName(self, device: Gpu) -> str:
        return device.name

    def nvmlDeviceGetCudaComputeCapability(self, device: Gpu) -> list[int]:
        return list(device.capability or ())

    def nvmlDeviceGetMemoryInfo(self, device: Gpu) -> SimpleNamespace:
        if device.memory_bytes is None:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=device.memory_bytes)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def test_a_driver_describes_its_gpus(installed: pytest.MonkeyPatch) -> None:
    library = Library(H100, L4)
    installed.setitem(sys.modules, "pynvml", library)
    assert read_management() == Management("580.65.06", (H100, L4))
    assert library.open == 0
    installed.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert visible_gpus() == [L4]


def test_a_gpu_that_does_not_answer_hides_no_other(installed: pytest.MonkeyPatch) -> None:
    without_memory = Gpu("NVIDIA GB10", None, (12, 1))  # it uses the machine's memory
    library = Library(NVMLError("GPU is lost"), H100, without_memory)
    installed.setitem(sys.modules, "pynvml", library)
    found = read_management()
    assert found is not None
    assert not found.trouble
    assert found.gpus == (Gpu("unknown GPU", None), H100, without_memory)


def test_what_a_driver_says_is_wrong_is_passed_on(installed: pytest.MonkeyPatch) -> None:
    wrong = NVMLError("Driver/library version mismatch")
    installed.setitem(sys.modules, "pynvml", Library(fails=wrong))
    assert read_management() == Management(trouble="Driver/library version mismatch")
    assert visible_gpus() == []


def test_without_a_driver_there_are_no_gpus(installed: pytest.MonkeyPatch) -> None:
    installed.setitem(sys.modules, "pynvml", Library(fails=NVMLError_LibraryNotFound()))
    assert read_management() is None
    installed.setitem(sys.modules, "pynvml", None)  # not installed
    assert read_management() is None
    assert visible_gpus() == []


def test_the_gpus_of_a_process_are_those_it_sees() -> None:
    assert visible([H100, L4], None) == [H100, L4]
    assert visible([H100, L4], "1") == [L4]
    assert visible([H100, L4], "1, 0") == [L4, H100]
    assert visible([H100], "") == []
    assert visible([H100], "GPU-8f6d") == [H100]  # by UUID: all GPUs are of one kind
    assert described([H100, L4, H100]) == "2 x NVIDIA H100 80GB HBM3, 1 x NVIDIA L4"
    assert described([]) == ""
