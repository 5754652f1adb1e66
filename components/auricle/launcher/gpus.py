"""Processes that share a GPU of this machine, and NVIDIA's Multi-Process Service (MPS) for them.

Without MPS, a GPU runs the kernels of one process at a time. With it, processes compute at the same
time, but a fault of one, such as an access outside of its memory, ends all that share its GPU.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from auricle.config.settings import CommonSettings
from auricle.config.workers import DecoderSettings
from auricle.core.errors import AuricleError

_CONTROL = "nvidia-cuda-mps-control"
_PIPES, _LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
_CALL_SECONDS = 30.0


def gpu_of(settings: CommonSettings, number: int) -> int | None:
    """Return the GPU of replica `number` (from 1) of a component; None if it uses none.

    Engines are taken to use one: a machine with GPUs has the engine's build for them.
    """
    device = getattr(settings, "device", "cuda" if isinstance(settings, DecoderSettings) else "cpu")
    if not device.startswith("cuda"):
        return None
    if settings.gpus:
        return settings.gpus[(number - 1) % len(settings.gpus)]
    return int(device.partition(":")[2] or 0)


def processes_by_gpu(settings: Mapping[str, CommonSettings]) -> Counter[int]:
    """Return the number of a graph's processes on each GPU."""
    placed = (
        gpu_of(own, number) for own in settings.values() for number in range(1, own.replicas + 1)
    )
    return Counter(gpu for gpu in placed if gpu is not None)


@asynccontextmanager
async def multi_process_service(
    common: CommonSettings, sharing: Mapping[int, int], folder: Path, say: Callable[[str], None]
) -> AsyncIterator[dict[str, str]]:
    """Run MPS in the block if processes share a GPU; yields the variables by which they use it.

    `sharing` is `processes_by_gpu`'s. Its sockets and logs are in `folder`. A service that already
    runs (CUDA_MPS_PIPE_DIRECTORY) is left alone. `say` gets a line for the operator: what shares
    GPUs, or the reason why MPS cannot run.
    """
    shared = sorted(gpu for gpu, processes in sharing.items() if processes > 1)
    if not shared or common.mps == "off" or _PIPES in os.environ:
        yield {}
        return
    named = f"GPU {', '.join(map(str, shared))}"
    variables = {_PIPES: str(folder / "mps"), _LOGS: str(folder / "mps-log")}
    try:
        await asyncio.to_thread(_start, variables)
    except AuricleError as error:
        say(f"WARNING: {named} runs one process at a time, which halves its throughput: {error}")
        yield {}
        return
    say(f"{named} runs its processes at the same time, through MPS")
    try:
        yield variables
    finally:
        with suppress(AuricleError):  # it stays without clients, which does no harm
            await asyncio.to_thread(_call, [], variables, "quit\n")


def _start(variables: Mapping[str, str]) -> None:
    """Start the service. Raises AuricleError with the reason if that fails."""
    if shutil.which(_CONTROL) is None:
        raise AuricleError(f"{_CONTROL}, a part of the NVIDIA driver, is not installed")
    for directory in variables.values():
        Path(directory).mkdir()
    _call(["-d"], variables)


def _call(arguments: list[str], variables: Mapping[str, str], text: str = "") -> None:
    try:
        done = subprocess.run(
            [_CONTROL, *arguments],
            env={**os.environ, **variables},
            input=text,
            # A daemon keeps inherited descriptors, so a pipe would never end.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_CALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AuricleError(f"{_CONTROL} failed: {error}") from None
    if done.returncode:
        raise AuricleError(
            f"{_CONTROL} ended with {done.returncode}; its log is control.log in {variables[_LOGS]}"
        )
