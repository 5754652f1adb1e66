"""vLLM's worker on a device with one injected fault, for tests without such a device."""

from __future__ import annotations

import os
from typing import Any

import torch

from auricle.workers.pd.vllm.device_worker import DeviceWorker

FAILS = "fails"  # prefix of the names of requests whose pass fails
_FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 1.50 GiB is free. Of the allocated memory 29.00 GiB is allocated by PyTorch."
)
_ILLEGAL = (
    "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be "
    "asynchronously reported at some other API call"
)


class FullDevice(DeviceWorker):
    """Fails to allocate memory for the weights."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        raise torch.OutOfMemoryError(_FULL)


class FailingDevice(DeviceWorker):
    """Fails a pass permanently, and then does not respond during cleanup."""

    def execute_model(self, scheduler_output: Any) -> Any:
        if any(new.req_id.startswith(FAILS) for new in scheduler_output.scheduled_new_reqs):
            raise torch.AcceleratorError(_ILLEGAL)
        return super().execute_model(scheduler_output)

    def shutdown(self) -> None:
        while True:
            os.sched_yield()
