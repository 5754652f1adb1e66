"""Faults of GPUs: errors of a pass are classified, and the driver is checked at start.

PyTorch is not imported here: its errors are recognised by their names and texts, so that tests and
tools without it can make them.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from auricle.core.errors import SettingsError

log = logging.getLogger(__name__)

# The GPUs of this machine, as the NVIDIA driver's management library (NVML) describes them.
#
# It makes no context on a GPU, so processes may be forked afterwards.


@dataclass(frozen=True)
class Gpu:
    """A GPU's name, memory and compute capability, such as (9, 0).

    Each is None if the GPU has none of its own, or does not answer.
    """

    name: str
    memory_bytes: int | None
    capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class Management:
    """The driver's version, and all GPUs; `trouble` is an error that the driver reports."""

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    trouble: str = ""


def read_management() -> Management | None:
    """Query the driver's management library; None without one."""
    try:
        import pynvml  # only environments for GPUs have it (nvidia-ml-py)
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            gpus = tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
            return Management(pynvml.nvmlSystemGetDriverVersion(), gpus)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError_LibraryNotFound:
        return None
    except pynvml.NVMLError as error:
        return Management(trouble=str(error))


def visible_gpus() -> list[Gpu]:
    """Return this process's GPUs; an empty list without a driver."""
    found = read_management()
    return visible(found.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")) if found else []


def visible(gpus: Sequence[Gpu], named: str | None) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names; all for None, and where it has UUIDs."""
    if named is None:
        return list(gpus)
    names = [name.strip() for name in named.split(",") if name.strip()]
    if not all(name.isdigit() for name in names):
        return list(gpus)
    return [gpus[int(name)] for name in names if int(name) < len(gpus)]


def described(gpus: Sequence[Gpu]) -> str:
    """Return number and model, such as `2 x NVIDIA H100`; empty without GPUs."""
    names = dict.fromkeys(gpu.name for gpu in gpus)
    return ", ".join(f"{sum(g.name == name for g in gpus)} x {name}" for name in names)


def _gpu(library: Any, index: int) -> Gpu:
    """Describe a GPU as far as it answers: another one that is lost must not stop this process."""
    name, memory_bytes, capability = "unknown GPU", None, None
    with suppress(library.NVMLError):
        device = library.nvmlDeviceGetHandleByIndex(index)
        name = library.nvmlDeviceGetName(device)
        capability = tuple(library.nvmlDeviceGetCudaComputeCapability(device))
        memory_bytes = library.nvmlDeviceGetMemoryInfo(device).total
    return Gpu(name, memory_bytes, capability)


_EXIT_CODE = 1
_OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
# Errors of one call, after which the device works on. After any other nothing does: the context
# is lost, every later call fails, and only a new process has another one.
_OF_ONE_CALL = ("invalid argument", "invalid configuration argument")
_OF_A_DEVICE = ("CUDA error", "CUDA driver error", "cuDNN error", "CUDNN_STATUS_EXECUTION_FAILED")
# PyTorch's details of its allocations and advice on tuning begin here.
_DETAILS = " Of the allocated memory"
# The oldest driver of a major version of CUDA, which runs all minor ones.
_DRIVERS = {11: 450, 12: 525, 13: 580}
_MISSING = (
    "no NVIDIA driver is found (libcuda.so.1): install one, or start the container with the "
    "machine's GPUs (NVIDIA Container Toolkit, --gpus all)"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device had no memory left; it works on, and a smaller batch may fit."""
    return any(
        type(e).__name__ == "OutOfMemoryError"
        or (_of_a_device(e) and any(text in str(e) for text in _OUT_OF_MEMORY))
        for e in _with_causes(error)
    )


def is_sticky(error: BaseException) -> bool:
    """Whether a device fails every call of this process from now on.

    An error that is not known counts as one: a process too many is started again, instead of one
    that fails whatever it is given.
    """
    return any(
        _of_a_device(e) and not any(text in str(e) for text in (*_OUT_OF_MEMORY, *_OF_ONE_CALL))
        for e in _with_causes(error)
    )


def first_sentence(error: BaseException) -> str:
    """Return an error's text, with its numbers, without the advice and traces that follow."""
    lines = str(error).strip().splitlines()
    return lines[0].partition(_DETAILS)[0] if lines else type(error).__name__


def end_if_sticky(error: BaseException, what: str, end: Callable[[int], object] = os._exit) -> None:
    """End this process without clean-up if its device fails every call from now on.

    Clean-up calls the device, which may never return. Callers detect the end of the process and
    repeat its requests elsewhere. `what` names the failed work.
    """
    if is_sticky(error):
        log.critical(
            "%s: %s; the device fails all that follows in this process, so it ends",
            *(what, first_sentence(error)),
        )
        end(_EXIT_CODE)


def end_if_lost(call: Callable[[], object], what: str) -> None:
    """Call the device of `what`, and end this process as `end_if_sticky` does if that fails."""
    try:
        call()
    except Exception as error:  # whatever a device raises
        end_if_sticky(error, what)


@dataclass(frozen=True)
class NvidiaDriver:
    """The NVIDIA driver: the newest CUDA it runs, its version, and the number of its GPUs.

    `trouble` is an error that it reports.
    """

    cuda: tuple[int, int]
    version: str = ""
    gpus: int | None = None
    trouble: str = ""


def check_driver(needed: str | None, what: str) -> None:
    """Raise SettingsError if the machine's driver does not run CUDA `needed` (such as "13.0").

    `needed` is `torch.version.cuda`, which is None if PyTorch is built without. No context is made
    on a GPU, so processes may be forked afterwards.
    """
    wrong = driver_trouble(read_driver(), needed, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if wrong is not None:
        raise SettingsError(f"{what} has no GPU: {wrong}")


def driver_trouble(
    driver: NvidiaDriver | None, needed: str | None, visible: str | None
) -> str | None:
    """Return a driver's problem and its remedy; None without a problem.

    `visible` is CUDA_VISIBLE_DEVICES, None if it is not set.
    """
    if needed is None:
        return "the installed PyTorch is built without CUDA; install requirements/gpu.txt"
    if driver is None:
        return _MISSING
    if driver.trouble:
        return f"the NVIDIA driver reports {driver.trouble!r}; `nvidia-smi` should list the GPUs"
    major = int(needed.partition(".")[0])
    if driver.cuda[0] < major:
        oldest = f"driver {_DRIVERS[major]} or later" if major in _DRIVERS else "a later one"
        return (
            f"the NVIDIA driver {driver.version or 'of this machine'} runs CUDA up to "
            f"{driver.cuda[0]}.{driver.cuda[1]}, but PyTorch is built for {needed}: "
            f"install {oldest}"
        )
    return _hidden(driver.gpus, visible)


def _hidden(gpus: int | None, visible: str | None) -> str | None:
    if gpus == 0:
        return "the NVIDIA driver finds none; `nvidia-smi` should list it"
    if visible is None:
        return None
    names = [name.strip() for name in visible.split(",")]
    if names == [""]:
        return "CUDA_VISIBLE_DEVICES is empty, which hides all; unset it, or name one"
    absent = [name for name in names if gpus is not None and name.isdigit() and int(name) >= gpus]
    if absent:
        return (
            f"CUDA_VISIBLE_DEVICES is {visible}, but the machine has {gpus}, numbered from 0: "
            "correct `gpus` in the configuration"
        )
    return None


def read_driver() -> NvidiaDriver | None:
    """Query the driver; None without one."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    cuda = (number.value // 1000, number.value % 1000 // 10)
    if (found := read_management()) is None:
        return NvidiaDriver(cuda)  # some boards and containers do not report their GPUs
    return NvidiaDriver(cuda, found.driver, len(found.gpus), found.trouble)


def _of_a_device(error: BaseException) -> bool:
    if type(error).__name__ == "AcceleratorError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OF_A_DEVICE)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, each once."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__
