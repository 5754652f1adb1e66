"""Forks the process of vLLM's engine from a server, which is forked from this process.

vLLM would start a new interpreter for its engine, which imports everything again: ten seconds of a
CPU and 300 MB. Here this process imports it, and forks a server before it has threads. The server
forks the engine's process later, when this one has threads (NIXL's, Dynamo's) that hold locks.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar

from auricle.workers.pd.vllm.process import set_defaults

PRELOADED = "auricle.workers.pd.vllm.preloaded"


def start(threads: int) -> None:
    """Import vLLM for an engine with that many threads, and fork the server.

    Blocks for seconds. Raises RuntimeError in a process that has other threads.
    """
    set_defaults()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    _share_openmp()
    importlib.import_module(PRELOADED)
    # The server does not need a timer of this process's log.
    others = [t.name for t in threading.enumerate()[1:] if not isinstance(t, threading.Timer)]
    if others:
        raise RuntimeError(f"the engine's server must be forked before {others} start")
    resource_tracker.ensure_running()
    server: Any = forkserver
    server.set_forkserver_preload([])  # nothing to import
    processes: Any = util
    original, processes.spawnv_passfds = processes.spawnv_passfds, _fork
    try:
        server.ensure_running()
    finally:
        processes.spawnv_passfds = original


def _share_openmp() -> None:
    """Load PyTorch's OpenMP for all libraries, as vLLM does by LD_PRELOAD for its processes."""
    spec = find_spec("torch")
    home = Path(spec.origin).parent if spec and spec.origin else Path()
    for library in sorted(home.glob("lib/libgomp*.so*"))[:1]:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def _fork(_path: object, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
    """Take the place of `multiprocessing.util.spawnv_passfds`: fork instead of executing Python.

    The last of the arguments is the code to run.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        kept = sorted({0, 1, 2, *descriptors})
        for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, high)
        from setproctitle import setproctitle

        setproctitle("auricle engine forkserver")  # not the title of this component
        logging.captureWarnings(False)
        logging.getLogger().handlers.clear()  # the engine logs by its own
        sys.excepthook = sys.__excepthook__
        server: Any = forkserver
        server._forkserver._lock._at_fork_reinit()  # the caller holds it
        exec(arguments[-1], {})
    except SystemExit:  # how the server ends
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


@contextmanager
def forked(*, started: bool) -> Iterator[None]:
    """Make vLLM fork its processes from the server in this block, if the server was started."""
    if not started:
        yield
        return
    from vllm.v1.engine import utils

    original: Any = utils.get_mp_context
    utils.get_mp_context = ForkedContext
    try:
        yield
    finally:
        utils.get_mp_context = original


class ForkedProcess(ForkServerProcess):
    """A process with this process's current environment instead of the server's."""

    def __init__(self, *, target: Callable[..., None], **arguments: Any) -> None:
        super().__init__(target=partial(_run, dict(os.environ), target), **arguments)


class ForkedContext(ForkServerContext):
    Process: ClassVar[type[ForkedProcess]] = ForkedProcess


def _run(environment: dict[str, str], target: Callable[..., None], **arguments: Any) -> None:
    os.environ.clear()
    os.environ.update(environment)
    target(**arguments)
