"""The inside of one component's process."""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import signal
import warnings

import uvloop

from auricle.logs import configure_logging
from auricle.settings import CommonSettings

_MAINS = {
    "Frontend": "auricle.frontend.main",
    "DynamoFrontend": "auricle.dynamo_frontend.main",
    "Processor": "auricle.processor.main",
    "EncodeWorker": "auricle.encode_worker.main",
    "PdWorker": "auricle.pd_worker.main",
    "Planner": "auricle.planner.main",
}
# Without what Dynamo says at every graceful shutdown: records removed already, watches ended.
_DYNAMO_LOG = ",".join(
    [
        "warn",
        "dynamo_runtime::component::endpoint=error",
        "dynamo_runtime::pipeline::network::egress::push_router=error",
        "dynamo_runtime::transports::event_plane=error",
        "dynamo_runtime::storage::kv::file=off",
    ]
)
_PR_SET_PDEATHSIG = 1  # prctl(2)


def run_component(name: str, settings: CommonSettings) -> None:
    """Run until told to stop."""
    configure_logging(name, settings)
    warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers and vLLM
    os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")  # in vLLM's processes
    os.environ.setdefault("DYN_LOG", _DYNAMO_LOG)
    os.environ.setdefault("OMP_NUM_THREADS", str(settings.threads))
    # Compute threads that wait must not spin: the other processes need the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if name in ("EncodeWorker", "PdWorker"):
        # On a CPU every shape of a batch is a primitive with memory of its own; of a thousand
        # kept (the default) most are never used again.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    if os.environ.get("AURICLE_SUPERVISED"):
        _die_with_parent()
    # Until it serves, a process holds nothing: SIGINT may end it as abruptly as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(_MAINS[name])
    # As Dynamo's own components do: packets and requests cost a good part less.
    uvloop.run(main.run(settings))


def _die_with_parent() -> None:
    """Even a launcher that was killed leaves no orphan: the kernel then sends SIGINT."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT) != 0:
        logging.getLogger(__name__).warning("prctl failed: %s", os.strerror(ctypes.get_errno()))
