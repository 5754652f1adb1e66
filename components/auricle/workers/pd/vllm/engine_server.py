"""Forks the process of vLLM's engine from a server that has imported vLLM.

vLLM would start a new interpreter after its import in this process, and import itself again: ten
seconds each on a CPU. The server imports it at the same time as this process. It has no threads,
and shares only the environment of this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar

from auricle.workers.pd.vllm.process import set_defaults

_PRELOAD = ["auricle.workers.pd.vllm.preloaded"]
_LIBRARIES = "LD_PRELOAD"


def start(threads: int) -> None:
    """Start the server for an engine with that many threads, without waiting for it."""
    set_defaults()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    get_context("forkserver").set_forkserver_preload(_PRELOAD)
    before = os.environ.get(_LIBRARIES)
    os.environ[_LIBRARIES] = _with_openmp(before)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ[_LIBRARIES]
        else:
            os.environ[_LIBRARIES] = before


def _with_openmp(loaded: str | None) -> str:
    """Add PyTorch's OpenMP to LD_PRELOAD, as vLLM does for the processes it starts."""
    spec = find_spec("torch")
    home = Path(spec.origin).parent if spec and spec.origin else Path()
    found = sorted(map(str, home.glob("lib/libgomp*.so*")))[:1]
    return ":".join([*([loaded] if loaded else []), *found])


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
