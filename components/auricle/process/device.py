"""The thread that runs a worker's passes, and distinguishes a broken device from a bad job."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from auricle.core.errors import CheckpointError, ProcessFailed
from auricle.process.device_faults import end_if_sticky, is_out_of_memory

log = logging.getLogger(__name__)

Work = TypeVar("Work")
Result = TypeVar("Result")


class DeviceThread:
    """Runs the passes of `name` (such as "encoder"), one at a time, off the event loop.

    `silence` runs a pass that cannot be at fault itself; it raises whatever the device raises.
    """

    def __init__(self, name: str, silence: Callable[[], object]) -> None:
        self._name = name
        self._silence = silence
        self._thread = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[[Work], Result], batch: Work) -> Result:
        """Return what `work` makes of a batch.

        Errors of `work` are raised, and concern this batch alone: a process ends at once if its
        device fails all later calls, and after other errors silence is tried. If that fails too,
        raises ProcessFailed. A device that is out of memory continues.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, batch)
        except Exception as error:
            end_if_sticky(error, f"a pass of the {self._name}")
            if not is_out_of_memory(error):
                await self._try_silence(error)
            raise

    async def answers(self) -> None:
        """Return once the thread has answered, which it does between two passes."""
        await asyncio.get_running_loop().run_in_executor(self._thread, time.monotonic)

    def close(self) -> None:
        """Stop the thread, and drop its queue."""
        self._thread.shutdown(cancel_futures=True)

    async def _try_silence(self, error: Exception) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._silence)
        except Exception as again:
            log.error("a pass failed: %s", error)
            raise ProcessFailed(f"the {self._name} fails on silence too: {again}") from error


# How the processes that compute with torch set it up, and load the modules of transformers.

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class DeviceModel:
    """Modules on a device. Not thread-safe: call them from one worker thread.

    Sets torch's number of CPU threads for the process, and has it compute exactly in float32.
    """

    def __init__(self, dtype: str, device: str, threads: int) -> None:
        self._dtype, self._device = DTYPES[dtype], torch.device(device)
        torch.set_num_threads(threads)
        if self._dtype is torch.float32:
            # By default cuDNN's convolutions round float32 to 10 bits of mantissa on a GPU.
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False

    @property
    def on_gpu(self) -> bool:
        """Whether passes run on a GPU."""
        return self._device.type == "cuda"

    def _load(self, module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
        """Load weights into a module, and make it ready to compute on the device.

        Raises CheckpointError if they are not all of it, and no more.
        """
        _load(module, weights, what)
        module.to(self._device, self._dtype).eval()


def config_of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return of `values` those that a config of transformers has."""
    known = kind().to_dict().keys() - {"architectures", "model_type"}
    return {key: value for key, value in values.items() if key in known}


def _load(module: Any, weights: dict[str, torch.Tensor], what: str) -> None:
    try:
        missing, unexpected = module.load_state_dict(weights, strict=False)
    except RuntimeError:  # it names every tensor of another shape, in a hundred lines
        raise CheckpointError(
            f"the weights of the {what} have other shapes than its config"
        ) from None
    if missing or unexpected:
        raise CheckpointError(
            f"the weights of the {what} do not fit its config: missing {sorted(missing)[:3]}, "
            f"unexpected {sorted(unexpected)[:3]}"
        )
