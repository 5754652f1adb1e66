"""Runs one component in its process: environment, logging, signals and event loop."""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import signal
import sys
import warnings

import uvloop

from auricle.launcher.checks import check_discovery, check_inotify
from auricle.process.descriptors import raise_limit
from auricle.process.logs import configure_logging
from auricle.runtime.network import set_environment
from auricle.settings import CommonSettings

_MAINS = {
    "Frontend": "auricle.frontend.main",
    "DynamoFrontend": "auricle.dynamo_frontend.main",
    "Processor": "auricle.processor.main",
    "EncodeWorker": "auricle.encode_worker.main",
    "PdWorker": "auricle.pd_worker.main",
    "AlignEncodeWorker": "auricle.encode_worker.main",
    "AlignWorker": "auricle.align_worker.main",
    "Planner": "auricle.planner.main",
}
# Hides the warnings of every graceful shutdown: records already removed, watches ended.
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
    """Run the component `name` until it has stopped; called once, in the main thread.

    Changes the process's environment, logging and signal handlers. Raises SettingsError if the
    discovery directory cannot be written, or if the limit of inotify instances is too low.
    """
    os.umask(0o077)  # what is made here, Dynamo's records and sockets included, is its user's only
    raise_limit()
    check_discovery(settings)
    check_inotify({name: settings.model_copy(update={"replicas": 1})})
    configure_logging(name, settings)
    set_environment(settings)  # here, because libraries read it when they are imported
    warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers and vLLM
    os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")  # in vLLM's processes
    os.environ.setdefault("DYN_LOG", _DYNAMO_LOG)
    if settings.log_format == "json":
        os.environ.setdefault("DYN_LOGGING_JSONL", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("DYN_SDK_DISABLE_ANSI_LOGGING", "1")
    os.environ.setdefault("OMP_NUM_THREADS", str(settings.threads))
    # Idle compute threads must not spin, because other processes need the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if name in ("EncodeWorker", "PdWorker", "AlignEncodeWorker", "AlignWorker"):
        # On a CPU, oneDNN caches a primitive with its memory per batch shape, 1024 by default;
        # most of them are never used again.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    if os.environ.get("AURICLE_SUPERVISED"):
        _die_with_parent()
    # Before it serves, a process has nothing to drain: SIGINT ends it at once, like SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(_MAINS[name])
    # As in Dynamo's own components: uvloop lowers the cost of packets and requests.
    uvloop.run(main.run(settings))


def _die_with_parent() -> None:
    """Have the kernel send SIGINT when the launcher dies, so that no orphan is left."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT) != 0:
        logging.getLogger(__name__).warning("prctl failed: %s", os.strerror(ctypes.get_errno()))
