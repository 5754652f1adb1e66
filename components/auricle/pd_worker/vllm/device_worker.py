"""vLLM's worker, which runs the model on a device, with our verification of drafts."""

from __future__ import annotations

from typing import Any

from vllm.platforms import current_platform

from auricle.pd_worker.vllm.verifier import GreedyVerifier

# Each of them imports only where its platform is.
if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as PlatformWorker
else:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker


class DeviceWorker(PlatformWorker):
    """The platform's worker; vLLM has no other hook for how drafts are verified."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        runner = self.model_runner
        runner.rejection_sampler = GreedyVerifier(runner.rejection_sampler)
