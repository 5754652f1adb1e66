"""Prevents a running process from opening new descriptors, or from allocating more memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil

# A new descriptor gets the lowest free number. Every process of a graph already uses these numbers.
_DESCRIPTORS = 16


@contextlib.contextmanager
def no_more_descriptors(process: psutil.Process) -> Iterator[None]:
    """Until the block ends, the process can open no file; its open files stay open."""
    with _limited(process, psutil.RLIMIT_NOFILE, _DESCRIPTORS):
        yield


@contextlib.contextmanager
def no_more_memory(process: psutil.Process) -> Iterator[None]:
    """Until the block ends, the process gets no more address space."""
    with _limited(process, psutil.RLIMIT_AS, process.memory_info().vms):
        yield


@contextlib.contextmanager
def _limited(process: psutil.Process, resource: int, soft: int) -> Iterator[None]:
    before = process.rlimit(resource)
    process.rlimit(resource, (soft, before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.rlimit(resource, before)
