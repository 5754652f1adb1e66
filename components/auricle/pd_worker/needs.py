"""What a PD worker needs before it can serve: `auricle component PdWorker --check`."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Sequence
from functools import partial

from auricle.pd_worker import vllm
from auricle.pd_worker.device_passes import check_runner, device_of_vllm, passes_on
from auricle.pd_worker.vllm.environment import set_defaults
from auricle.process.needs import LIBRARIES, Need, checkpoint, imports
from auricle.settings import PdWorkerSettings


def needs(settings: PdWorkerSettings) -> Sequence[Need]:
    """Return the needs of a PD worker with these settings. Sets variables that vLLM reads."""
    set_defaults()
    # vLLM's own processes import the modules of our plug-in.
    plug_in = [f"{vllm.__name__}.{module.name}" for module in pkgutil.iter_modules(vllm.__path__)]
    late = [*LIBRARIES, "nixl._api", "vllm", *plug_in]
    if device_of_vllm() == "gpu":
        late.append("pynvml")
    return [
        Need("device", partial(_built_for, settings)),
        imports("auricle.pd_worker.main", *late),
        checkpoint(settings.model),
    ]


def _built_for(settings: PdWorkerSettings) -> str:
    """Return what vLLM is built for. Whether there is a GPU is not asked."""
    device = device_of_vllm()
    check_runner(settings, os.environ)
    passes_on(device, settings)
    return f"vLLM is built for a {device.upper()}, which was not looked for"
