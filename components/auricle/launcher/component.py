"""Runs one component in its process: environment, logging, signals and event loop."""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from auricle.config.settings import CommonSettings, refuse_unknown
from auricle.core.errors import AuricleError, SettingsError
from auricle.dynamo import network
from auricle.launcher.checks import check_discovery, check_inotify
from auricle.launcher.config import COMMAND_LINE, load_config, settings_for
from auricle.launcher.lengths import PAIR, check_own_lengths
from auricle.launcher.model_folders import place_models
from auricle.load.pools import OPTIONAL_POOLS
from auricle.process.logs import configure_logging
from auricle.process.needs import Need, imports
from auricle.process.resources import lower_priority, raise_limit, trim_heap

Settings = TypeVar("Settings", bound=CommonSettings)
# Of each component a package with the modules `main` and `needs`.
PACKAGES = {
    "Frontend": "auricle.frontend",
    "DynamoFrontend": "auricle.dynamo_frontend",
    "Processor": "auricle.processor",
    "EncodeWorker": "auricle.workers.encode",
    "PdWorker": "auricle.workers.pd",
    "AlignEncodeWorker": "auricle.workers.encode",
    "AlignWorker": "auricle.workers.align",
    "DiarizeWorker": "auricle.workers.diarize",
    "TranslateWorker": "auricle.workers.translate",
    "Planner": "auricle.planner",
}
# These compute in threads of their libraries.
_COMPUTE = (
    *("EncodeWorker", "PdWorker", "AlignEncodeWorker", "AlignWorker", "DiarizeWorker"),
    "TranslateWorker",
)
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
# If cores are short, text comes first: a tenth of a required worker's time (sched(7)).
_NICE_OPTIONAL = 10


def component_settings(name: str, config: Path | None, overrides: Sequence[str]) -> Any:
    """Return the validated settings of a process that is started alone, as in a container.

    Raises SettingsError, also for an unknown component.
    """
    refuse_unknown(name)
    sections = load_config(config, overrides)
    if (namespace := os.environ.get("DYN_NAMESPACE")) is not None:
        # Dynamo's operator sets a namespace per deployment.
        sections.setdefault("Common", {}).setdefault("namespace", namespace)
    source = str(config or COMMAND_LINE)
    read = {name, *(PAIR if name in PAIR else ())}
    place_models(read, sections, source, lambda line: print(line, file=sys.stderr, flush=True))
    settings = settings_for(name, sections, source)
    check_own_lengths(name, sections, source)
    return settings


def needs_of(name: str, settings: CommonSettings) -> Sequence[Need]:
    """Return the requirements of the component `name`."""
    needs: Sequence[Need] = importlib.import_module(f"{PACKAGES[name]}.needs").needs(settings)
    return needs


def run_component(name: str, settings: CommonSettings) -> None:
    """Run the component `name` until it has stopped; called once, in the main thread.

    Changes the process's environment, priority, logging and signal handlers. Raises SettingsError
    if the discovery directory cannot be written, or if the limit of inotify instances is too low.
    """
    os.umask(0o077)  # new files, Dynamo's records and sockets included, are private to the user
    raise_limit()
    check_discovery(settings)
    check_inotify({name: settings.model_copy(update={"replicas": 1})})
    configure_logging(name, settings)
    set_environment(name, settings)
    settings = on_its_gpu(settings)
    if os.environ.get("AURICLE_SUPERVISED"):
        _die_with_parent()
    # Before it serves, a process has nothing to drain: SIGINT ends it at once, like SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if any(pool.component == name for pool in OPTIONAL_POOLS):
        lower_priority(_NICE_OPTIONAL)
    main = importlib.import_module(f"{PACKAGES[name]}.main")
    # Some components need a part of their start to run before the process has threads.
    prepared = [main.prepare(settings)] if hasattr(main, "prepare") else []
    trim_heap()
    # As in Dynamo's own components: uvloop lowers the cost of packets and requests.
    uvloop.run(main.run(settings, *prepared))


def set_environment(name: str, settings: CommonSettings) -> None:
    """Set the environment variables that libraries of the component `name` read on import."""
    network.set_environment(settings)
    warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers and vLLM
    os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")  # in vLLM's processes
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # vLLM's kernels warn of NUMA nodes
    os.environ.setdefault("DYN_LOG", _DYNAMO_LOG)
    if settings.log_format == "json":
        os.environ.setdefault("DYN_LOGGING_JSONL", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("DYN_SDK_DISABLE_ANSI_LOGGING", "1")
    os.environ.setdefault("OMP_NUM_THREADS", str(settings.threads))
    # Idle compute threads must not spin, because other processes need the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if name in _COMPUTE:
        # On a CPU, oneDNN caches a primitive with its memory per batch shape, 1024 by default;
        # most of them are never used again.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def on_its_gpu(settings: Settings) -> Settings:
    """Return the settings of a process that sees only its GPU: a device `cuda:N` becomes `cuda`.

    Libraries use the first visible GPU unless every call of every thread names another. Raises
    SettingsError if CUDA_VISIBLE_DEVICES hides the GPU.
    """
    kind, _, index = getattr(settings, "device", "").partition(":")
    if kind != "cuda" or not index.isdigit():
        return settings
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [index] if visible is None else visible.split(",")
    number = 0 if visible is None else int(index)
    if number >= len(names):
        raise SettingsError(
            f"device is cuda:{index}, but CUDA_VISIBLE_DEVICES {visible!r} names only "
            f"{len(names)}: correct device or gpus"
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = names[number].strip()
    return settings.model_copy(update={"device": kind})


def _die_with_parent() -> None:
    """Have the kernel send SIGINT when the launcher dies, so that no orphan is left."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT) != 0:
        logging.getLogger(__name__).warning("prctl failed: %s", os.strerror(ctypes.get_errno()))


# `auricle component NAME --check`: whether the component could serve, without serving.
#
# At the top it imports nothing that needs a library, so that it can say which one is missing.

if TYPE_CHECKING:
    from auricle.config.settings import CommonSettings


def check_component(name: str, config: Path | None, overrides: Sequence[str]) -> bool:
    """Print a line for each requirement of the component; return whether all are met.

    Changes the process's environment as `run_component` does. Uses no device, connects to
    nothing, writes no file and starts no component. Blocks for seconds.
    """
    start = imports("auricle.launcher.component", "auricle.dynamo.secrets")
    if not _is_met(start, silent=True):
        return False

    try:
        settings = component_settings(name, config, overrides)
    except AuricleError as error:
        print(f"configuration: FAILED: {error}")
        return False
    set_environment(name, settings)
    source = str(config or "the command line")
    needs = [Need("configuration", partial(_files, source, settings)), *needs_of(name, settings)]
    unmet = [need for need in needs if not _is_met(need)]
    return not unmet


def _is_met(need: Need, *, silent: bool = False) -> bool:
    try:
        found = need.check()
    except (AuricleError, ImportError) as error:
        print(f"{need.what}: FAILED: {error}", flush=True)
        return False
    if not silent:
        print(f"{need.what}: {found}", flush=True)
    return True


def _files(source: str, settings: CommonSettings) -> str:
    from auricle.dynamo.secrets import secrets_of

    if settings.secret_file is not None or settings.discovery != "file":
        secrets_of(settings)  # with the file discovery it would make one
    return f"{source} is valid"
