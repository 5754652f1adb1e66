"""Errors of a GPU are classified, and an unsuitable driver is named in one sentence."""

from __future__ import annotations

import pytest
import torch

from auricle.core.errors import SettingsError
from auricle.process.device_faults import (
    NvidiaDriver,
    check_driver,
    driver_trouble,
    end_if_sticky,
    first_sentence,
    is_out_of_memory,
    is_sticky,
)

pytestmark = pytest.mark.unit

ILLEGAL = "CUDA error: an illegal memory access was encountered"
FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 1.50 GiB is free. Including non-PyTorch memory, this process has 30.00 GiB memory in "
    "use. Of the allocated memory 29.00 GiB is allocated by PyTorch."
)


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError(ILLEGAL),
        RuntimeError(f"{ILLEGAL}\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx"),
        RuntimeError("CUDA error: an error of tomorrow"),
    ],
    ids=str,
)
def test_after_an_error_of_the_device_nothing_works(error: Exception) -> None:
    assert is_sticky(error)
    assert not is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(FULL),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
    ],
    ids=str,
)
def test_a_device_without_memory_works_on(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_sticky(error)


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: invalid argument"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ValueError("CUDA error"),
    ],
    ids=str,
)
def test_other_errors_are_of_one_call(error: Exception) -> None:
    assert not is_sticky(error)
    assert not is_out_of_memory(error)


def test_an_error_is_found_behind_another() -> None:
    try:
        try:
            raise torch.AcceleratorError(ILLEGAL)
        except RuntimeError as error:
            raise ValueError("the pass failed") from error
    except ValueError as found:
        assert is_sticky(found)


def test_numbers_are_kept_and_advice_is_left_out() -> None:
    said = first_sentence(torch.OutOfMemoryError(FULL))
    assert "Tried to allocate 2.00 GiB" in said
    assert "79.11 GiB of which 1.50 GiB is free" in said
    assert "allocated by PyTorch" not in said


def test_only_an_error_that_stays_ends_the_process(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[int] = []
    end_if_sticky(torch.OutOfMemoryError(FULL), "a decoding step", ended.append)
    assert ended == []
    end_if_sticky(torch.AcceleratorError(ILLEGAL), "a decoding step", ended.append)
    assert ended == [1]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"a decoding step: {ILLEGAL}; ")


def test_a_driver_that_does_has_no_trouble() -> None:
    for visible in (None, "0", "0,1", "GPU-8f6d", "MIG-1a"):
        assert driver_trouble(NvidiaDriver((13, 0), "580.65.06", 2), "13.0", visible) is None
    # Any driver of a major version of CUDA runs all minor versions.
    assert driver_trouble(NvidiaDriver((13, 0), "580.65.06", 2), "13.2", None) is None
    assert driver_trouble(NvidiaDriver((13, 0)), "13.0", "7") is None  # a driver without a version


@pytest.mark.parametrize(
    ("driver", "needed", "visible", "said"),
    [
        (None, "13.0", None, "no NVIDIA driver is found"),
        (NvidiaDriver((13, 0), "580.65.06", 1), None, None, "requirements/gpu.txt"),
        (
            NvidiaDriver((12, 4), "550.54.15", 1),
            *("13.0", None),
            "driver 550.54.15 runs CUDA up to 12.4, but PyTorch is built for 13.0: "
            "install driver 580 or later",
        ),
        (NvidiaDriver((12, 4)), "99.0", None, "install a later one"),
        (
            NvidiaDriver((13, 0), trouble="Driver/library version mismatch"),
            *("13.0", None, "reports 'Driver/library version mismatch'"),
        ),
        (NvidiaDriver((13, 0), "580.65.06", 0), "13.0", None, "finds none"),
        (NvidiaDriver((13, 0), "580.65.06", 2), "13.0", "", "CUDA_VISIBLE_DEVICES is empty"),
        (
            NvidiaDriver((13, 0), "580.65.06", 2),
            *("13.0", "2", "CUDA_VISIBLE_DEVICES is 2, but the machine has 2, numbered from 0"),
        ),
    ],
    ids=str,
)
def test_a_driver_that_does_not_is_one_sentence(
    driver: NvidiaDriver | None, needed: str | None, visible: str | None, said: str
) -> None:
    wrong = driver_trouble(driver, needed, visible)
    assert wrong is not None
    assert said in wrong
    assert "\n" not in wrong


def test_a_process_that_needs_a_driver_says_so_by_its_name() -> None:
    with pytest.raises(SettingsError, match=r"^PdWorker has no GPU: the installed PyTorch"):
        check_driver(None, "PdWorker")
